"""A layer norm whose quotient is the other way round is taken for a layer norm.

Div: 'Performs element-wise binary division', of the first operand by the second. The nodes give
deviation = root / (x - mean), which is fused to the operator LayerNormalization as if it were (x - mean) / root, from
the extended optimisations on; without optimisations what is right is given.
"""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = """
<ir_version: 8, opset_import: ["" : 13]>
g (float[1, 4] x) => (float[1, 4] y)
<float two = {2.0}, float epsilon = {1e-5}, float[4] scale = {1.0, 1.0, 1.0, 1.0}, float[4] bias = {0.0, 0.0, 0.0, 0.0}>
{
    mean = ReduceMean<axes = [-1], keepdims = 1>(x)
    centred = Sub(x, mean)
    square = Pow(centred, two)
    variance = ReduceMean<axes = [-1], keepdims = 1>(square)
    above = Add(variance, epsilon)
    root = Sqrt(above)
    quotient = Div(root, centred)
    scaled = Mul(quotient, scale)
    y = Add(scaled, bias)
}
"""
INPUTS = {"x": np.array([[1.0, 2.0, 3.0, 5.0]], np.float32)}
RIGHT = np.array([[-0.8451562, -1.9720312, 5.9160935, 0.65734375]], np.float32)
WITHIN = 0.0001
"""The relative error that may be left, which no rounding explains."""


def given():
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    model = onnx.parser.parse_model(MODEL).SerializeToString()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, INPUTS)[0])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

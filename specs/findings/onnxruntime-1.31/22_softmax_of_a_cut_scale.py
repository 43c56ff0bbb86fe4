"""A quantised Softmax divides by another scale than its own where one over that scale is no whole number.

QuantizeLinear: 'y = saturate((x / y_scale) + y_zero_point)', with (x / y_scale) 'rounding to nearest even'. Here x is 1
and y_scale the float32 nearest to 1/255, so that is 255. The runtime takes the three operators together and multiplies
by one over the scale, 254.99998, without its fraction: 254. Without optimisations it is 255.
"""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = """
<ir_version: 8, opset_import: ["" : 13]>
g (uint8[1, 2] x) => (uint8[1, 2] y)
<float one = {1.0}, uint8 zero = {0}, float step = {0.003921569}>
{
    values = DequantizeLinear(x, one, zero)
    shares = Softmax(values)
    y = QuantizeLinear(shares, step, zero)
}
"""
INPUTS = {"x": np.array([[0, 200]], np.uint8)}
RIGHT = np.array([[0, 255]], np.uint8)
WITHIN = 0


def given():
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    model = onnx.parser.parse_model(MODEL).SerializeToString()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, INPUTS)[0])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

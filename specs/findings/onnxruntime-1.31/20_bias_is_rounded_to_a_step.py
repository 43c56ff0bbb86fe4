"""A bias that is a float becomes a whole number of steps where its operands were quantised.

Conv: 'Optional 1D bias to be added to the convolution', here 0.375, of any float. It is rounded to a multiple of the
product of both scales, 1 here, so it is lost; without optimisations it is added.
"""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = """
<ir_version: 8, opset_import: ["" : 13]>
g (uint8[1, 1, 1, 2] x) => (uint8[1, 1, 1, 2] y)
<float one = {1.0}, uint8 zero = {0}, int8 none = {0}, float quarter = {0.25},
 int8[1, 1, 1, 1] w = {1}, float[1] bias = {0.375}>
{
    values = DequantizeLinear(x, one, zero)
    kernel = DequantizeLinear(w, one, none)
    sums = Conv(values, kernel, bias)
    y = QuantizeLinear(sums, quarter, zero)
}
"""
INPUTS = {"x": np.array([[[[1, 7]]]], np.uint8)}
RIGHT = np.array([[[[6, 30]]]], np.uint8)
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

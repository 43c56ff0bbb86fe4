"""Softmax of a row with a NaN has a number.

Softmax: 'Softmax(input, axis) = Exp(input) / ReduceSum(Exp(input), axis=axis, keepdims=1)'. The sum is no number.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[1,2] x) => (float[1,2] y) {
    y = Softmax(x)
}
"""
INPUTS = {"x": np.array([[np.nan, 0]], np.float32)}
RIGHT = np.array([[np.nan, np.nan]], np.float32)
WITHIN = 0.0
"""It is exact."""


def given():
    import openvino

    core = openvino.Core()
    model = core.read_model(onnx.parser.parse_model(MODEL).SerializeToString())
    compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return np.array(compiled(INPUTS)[0])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

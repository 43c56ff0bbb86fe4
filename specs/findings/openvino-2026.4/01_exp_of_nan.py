"""Exp of NaN is infinity.

Exp: 'Calculates the exponential of the given input tensor, element-wise'; that of no number is no number.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[2] y) {
    y = Exp(x)
}
"""
INPUTS = {"x": np.array([np.nan, 1], np.float32)}
RIGHT = np.exp(INPUTS["x"])
WITHIN = 2e-6
"""Some units in the last place."""


def given():
    import openvino

    core = openvino.Core()
    model = core.read_model(onnx.parser.parse_model(MODEL).SerializeToString())
    compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return np.array(compiled(INPUTS)[0])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

"""Erf of a small number is 0.

Erf: 'Computes the error function of the given input tensor element-wise'. Near 0 that is 2 / sqrt(pi) times the
number. Up to 0.1 it is off by some 2e-7, whatever the number.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[2] y) {
    y = Erf(x)
}
"""
INPUTS = {"x": np.array([1e-20, 1], np.float32)}
RIGHT = np.array([1.1283792e-20, 0.84270079], np.float32)
WITHIN = 1e-5
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

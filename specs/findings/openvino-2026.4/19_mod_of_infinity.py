"""Mod of 1 and infinity is NaN.

Mod: 'If `y` is `±∞` and `x` is finite, `x` is returned'. What is given is x - trunc(x / y) * y, of which the product
is 0 times infinity.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x, float[2] z) => (float[2] y) {
    y = Mod <fmod = 1> (x, z)
}
"""
INPUTS = {"x": np.array([1, 5], np.float32), "z": np.array([np.inf, 3], np.float32)}
RIGHT = np.array([1, 2], np.float32)
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

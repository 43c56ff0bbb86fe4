"""Mod of 0 by -2 is 0.

Mod: 'If `x` is `±0` and `y` is nonzero, `±0` with the sign of `y` is returned'.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 28]>
g (float[1] x, float[1] z) => (float[1] y) {
    y = Mod(x, z)
}
"""
INPUTS = {"x": np.array([0], np.float32), "z": np.array([-2], np.float32)}
RIGHT = np.array([-0.0], np.float32)
WITHIN = 0.0
"""It is exact."""


def given():
    from emx_onnx_cgen.onnx_backend import prepare

    return np.array(prepare(onnx.parser.parse_model(MODEL)).run(list(INPUTS.values()))[0])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

"""Mod of 0 by -2 is 0.

Mod: 'If `x` is `±0` and `y` is nonzero, `±0` with the sign of `y` is returned'. The zero that is given has the sign
of the first.
"""

import tempfile

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 28]>
g (float[2] x, float[2] z) => (float[2] y) {
    y = Mod(x, z)
}
"""
INPUTS = {"x": np.array([0, 1], np.float32), "z": np.array([-2, -2], np.float32)}
RIGHT = np.array([-0.0, -1], np.float32)
WITHIN = 0.0
"""It is exact."""


def given():
    import tract

    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.onnx"
        onnx.save(onnx.parser.parse_model(MODEL), path)
        runnable = tract.onnx().load(path).into_model().into_runnable()
    return runnable.run(list(INPUTS.values()))[0].to_numpy()


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

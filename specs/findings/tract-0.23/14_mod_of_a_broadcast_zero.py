"""Mod by several numbers of which one is 0 is NaN for all of them.

Mod: 'If `fmod` is `1`, the output is calculated as `A - trunc(A / B) * B`'. By 1 that is 0; NaN is right for the
other element alone.
"""

import tempfile

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float x, float[2] z) => (float[2] y) {
    y = Mod <fmod = 1> (x, z)
}
"""
INPUTS = {"x": np.array(0, np.float32), "z": np.array([0, 1], np.float32)}
RIGHT = np.array([np.nan, 0], np.float32)
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

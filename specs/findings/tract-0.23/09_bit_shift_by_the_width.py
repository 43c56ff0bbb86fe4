"""BitShift by 33 is a shift by 1.

BitShift-28: 'is greater than or equal to the number of bits of T'; then the result of a left shift is 0. What is
given is the shift by the amount modulo 32.
"""

import tempfile

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 28]>
g (int32[2] x, int32[2] z) => (int32[2] y) {
    y = BitShift <direction = "LEFT"> (x, z)
}
"""
INPUTS = {"x": np.array([1, 1], np.int32), "z": np.array([1, 33], np.int32)}
RIGHT = np.array([2, 0], np.int32)
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

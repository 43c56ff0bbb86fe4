"""Celu divides by no alpha.

Celu: 'max(0,x) + min(0,alpha*(exp(x/alpha)-1))', which is 2 * (exp(-1 / 2) - 1).
"""

import tempfile

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 12]>
g (float[2] x) => (float[2] y) {
    y = Celu <alpha = 2.0> (x)
}
"""
INPUTS = {"x": np.array([1, -1], np.float32)}
RIGHT = np.array([1, -0.7869387], np.float32)
WITHIN = 1e-5
"""Some units in the last place."""


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

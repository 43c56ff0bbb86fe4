"""GRU reversed keeps nothing from step to step.

GRU: 'Specify if the RNN is forward, reverse, or bidirectional'. Reversed, the second step is made first, and the
first keeps half of its state. What is given for the first step is the step alone.
"""

import tempfile

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 14]>
g (float[2,1,1] x, float[1,3,1] w, float[1,3,1] r) => (float[2,1,1,1] y) {
    y, h = GRU <direction = "reverse", hidden_size = 1> (x, w, r)
}
"""
INPUTS = {
    "x": np.array([[[0]], [[1]]], np.float32),
    "w": np.ones((1, 3, 1), np.float32),
    "r": np.zeros((1, 3, 1), np.float32),
}
RIGHT = np.array([[[[0.1024121]]], [[[0.2048242]]]], np.float32)
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

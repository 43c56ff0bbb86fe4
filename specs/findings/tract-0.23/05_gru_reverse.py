"""GRU reversed is run forward.

GRU: 'Specify if the RNN is forward, reverse, or bidirectional'. Reversed, the second step is made first, of a
state of 0. What is given for it keeps half of the state of the first. LSTM and RNN do
the same.
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
    "x": np.array([[[1]], [[0]]], np.float32),
    "w": np.ones((1, 3, 1), np.float32),
    "r": np.zeros((1, 3, 1), np.float32),
}
RIGHT = np.array([[[[0.2048242]]], [[[0]]]], np.float32)
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

"""LSTM reversed gives its steps in the order in which they were made.

LSTM: 'Specify if the RNN is forward, reverse, or bidirectional'. Y has the state of each step at its place; of the
second step, which is made first, x is 1 and the state is 0.3696.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 14]>
g (float[2,1,1] x, float[1,4,1] w, float[1,4,1] r) => (float[2,1,1,1] y) {
    y, h = LSTM <direction = "reverse", hidden_size = 1> (x, w, r)
}
"""
INPUTS = {
    "x": np.array([[[0]], [[1]]], np.float32),
    "w": np.ones((1, 4, 1), np.float32),
    "r": np.zeros((1, 4, 1), np.float32),
}
RIGHT = np.array([[[[0.1357048]]], [[[0.3696064]]]], np.float32)
WITHIN = 1e-5
"""Some units in the last place."""


def given():
    from emx_onnx_cgen.onnx_backend import prepare

    return np.array(prepare(onnx.parser.parse_model(MODEL)).run(list(INPUTS.values()))[0])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

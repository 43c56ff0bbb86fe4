"""LSTM reversed gives its first state as the last.

LSTM: 'The last output value of the hidden'. Reversed, the last step is that of the first element, which is 1.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 14]>
g (float[2,1,1] x, float[1,4,1] w, float[1,4,1] r) => (float[1,1,1] h) {
    y, h = LSTM <direction = "reverse", hidden_size = 1> (x, w, r)
}
"""
INPUTS = {
    "x": np.array([[[1]], [[0]]], np.float32),
    "w": np.ones((1, 4, 1), np.float32),
    "r": np.zeros((1, 4, 1), np.float32),
}
RIGHT = np.array([[[0.36960635]]], np.float32)
WITHIN = 1e-6
"""Some units in the last place."""


def given():
    import cv2

    model = onnx.parser.parse_model(MODEL).SerializeToString()
    net = cv2.dnn.readNetFromONNX(np.frombuffer(model, np.uint8))
    for name, value in INPUTS.items():
        net.setInput(value, name)
    return net.forward()


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

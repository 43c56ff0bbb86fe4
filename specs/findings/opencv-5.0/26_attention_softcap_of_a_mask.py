"""Attention caps what its mask has excluded.

Attention: 'The soft cap is applied before mask / bias addition and softmax'. Behind it -inf is -1, the cap, and the
second key is attended.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 23]>
g (float[1,1,1,1] q, float[1,1,2,1] k, float[1,1,2,1] v, float[1,2] m) => (float[1,1,1,1] y) {
    y = Attention <softcap = 1.0> (q, k, v, m)
}
"""
INPUTS = {
    "q": np.zeros((1, 1, 1, 1), np.float32),
    "k": np.zeros((1, 1, 2, 1), np.float32),
    "v": np.array([0, 1], np.float32).reshape(1, 1, 2, 1),
    "m": np.array([[0, -np.inf]], np.float32),
}
RIGHT = np.zeros((1, 1, 1, 1), np.float32)
WITHIN = 0.0
"""It is exact."""


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

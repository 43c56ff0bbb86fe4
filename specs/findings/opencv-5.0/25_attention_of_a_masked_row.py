"""Attention with nothing to attend is the mean of all values.

Attention-23: 'produces a zero output row (matching prevailing runtime practice), not `NaN`', of a row whose mask is
false throughout. -inf seems to be taken for a finite number.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 23]>
g (float[1,1,1,1] q, float[1,1,2,1] k, float[1,1,2,1] v, bool[1,2] m) => (float[1,1,1,1] y) {
    y = Attention(q, k, v, m)
}
"""
INPUTS = {
    "q": np.zeros((1, 1, 1, 1), np.float32),
    "k": np.zeros((1, 1, 2, 1), np.float32),
    "v": np.array([1, 2], np.float32).reshape(1, 1, 2, 1),
    "m": np.zeros((1, 2), np.bool_),
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

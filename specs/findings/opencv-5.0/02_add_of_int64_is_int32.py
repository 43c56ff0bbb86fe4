"""Add of int64 is computed in int32.

Add: 'Performs element-wise binary addition'; no 2**40 is left of 2**40 + 1. Mul of 2**31 and 2 is -2**32.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (int64[1] x, int64[1] z) => (int64[1] y) {
    y = Add(x, z)
}
"""
INPUTS = {"x": np.array([2**40]), "z": np.array([1])}
RIGHT = np.array([2**40 + 1])
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

"""Einsum of double is computed in float.

What is given has the type double, and the digits of a float.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (double[1,2] x) => (double[1] y) {
    y = Einsum <equation = "ij->i"> (x)
}
"""
INPUTS = {"x": np.array([[1.0, 1e-12]])}
RIGHT = np.array([1 + 1e-12])
WITHIN = 1e-15
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

"""Sqrt of double is computed in float.

Sqrt: 'y = x^0.5, is applied to the tensor elementwise'. The number is of double, and eight of its digits are right.
All functions of double are computed so.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (double[1] x) => (double[1] y) {
    y = Sqrt(x)
}
"""
INPUTS = {"x": np.array([0.5])}
RIGHT = np.array([0.7071067811865476])
WITHIN = 1e-14
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

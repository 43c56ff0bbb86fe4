"""Neg of 0 is 0.

Neg: 'each element flipped sign, y = -x, is applied to the tensor elementwise'. What is given is 0 - x.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[2] y) {
    y = Neg(x)
}
"""
INPUTS = {"x": np.array([0, 1], np.float32)}
RIGHT = np.array([-0.0, -1], np.float32)
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

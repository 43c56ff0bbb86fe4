"""Softplus of 100 is infinite.

Softplus: 'y = ln(exp(x) + 1)', which is 100: the function of numbers has no overflow on the way.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[2] y) {
    y = Softplus(x)
}
"""
INPUTS = {"x": np.array([1, 100], np.float32)}
RIGHT = np.array([1.3132617, 100], np.float32)
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

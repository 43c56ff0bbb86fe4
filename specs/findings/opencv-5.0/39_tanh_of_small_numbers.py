"""Tanh of a small number is off by 1,024 units in the last place.

Tanh: 'Calculates the hyperbolic tangent of the given input tensor element-wise'. Near 0 that is the number. Of fewer
than eight it is right.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[8] x) => (float[8] y) {
    y = Tanh(x)
}
"""
INPUTS = {"x": np.full(8, 2**-13, np.float32)}
RIGHT = np.full(8, 2**-13, np.float32)
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

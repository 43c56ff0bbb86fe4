"""Mod of floats is that of whole numbers.

Mod: 'If `fmod` is `0`, the output is calculated as `A - floor(A / B) * B`'. What is given is -4 modulo 2.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[1] x, float[1] z) => (float[1] y) {
    y = Mod(x, z)
}
"""
INPUTS = {"x": np.array([-4.25], np.float32), "z": np.array([2.5], np.float32)}
RIGHT = np.array([0.75], np.float32)
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

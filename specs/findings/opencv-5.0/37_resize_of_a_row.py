"""Resize of one row reads what is no element.

Resize: 'it calculates every value in the output tensor as a weighted average of neighborhood (a.k.a. sampling
locations) in the input tensor', and the mean of ones is one. A millionth of what stands behind the row is mixed in.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 19]>
g (float[1,1,1,2] x) => (float[1,1,1,4] y) <float[4] s = {1, 1, 1, 2}> {
    y = Resize <mode = "linear"> (x, , s)
}
"""
INPUTS = {"x": np.ones((1, 1, 1, 2), np.float32)}
RIGHT = np.ones((1, 1, 1, 4), np.float32)
WITHIN = 2e-7
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

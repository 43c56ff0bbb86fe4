"""Reshape of a Reshape copies a size from before both.

Reshape: 'A dimension could also be 0, in which case the actual dimension value is unchanged (i.e. taken from the
input tensor)'. The input of the second has two rows. The body that ONNX gives of GroupNormalization takes its
channels for groups so.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[1,2] x) => (float[2,1] y) {
    a = Constant <value_ints = [2, 1]> ()
    b = Constant <value_ints = [0, -1]> ()
    r = Reshape(x, a)
    y = Reshape(r, b)
}
"""
INPUTS = {"x": np.array([[1, 2]], np.float32)}
RIGHT = np.array([[1], [2]], np.float32)
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

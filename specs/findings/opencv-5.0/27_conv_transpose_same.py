"""ConvTranspose with SAME_UPPER makes one element too few.

ConvTranspose: 'SAME_UPPER or SAME_LOWER mean pad the input so that `output_shape[i] = input_shape[i] * strides[i]`
for each axis `i`', which is 2. Of three elements the last is padding then. What is given lacks the first too.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 11]>
g (float[1,1,1] x, float[1,1,3] w) => (float[1,1,2] y) {
    y = ConvTranspose <auto_pad = "SAME_UPPER", strides = [2]> (x, w)
}
"""
INPUTS = {"x": np.ones((1, 1, 1), np.float32), "w": np.arange(3, dtype=np.float32).reshape(1, 1, 3)}
RIGHT = np.array([[[0, 1]]], np.float32)
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

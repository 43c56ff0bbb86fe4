"""Resize takes no notice of antialias.

Resize: 'Antialiasing is achieved by stretching the resampling filter by a factor max(1, 1 / scale), which means that
when downsampling, more input pixels contribute to an output pixel'. The first element of a row gets a seventh of the
third.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 19]>
g (float[1,1,2,4] x) => (float[1,1,2,2] y) <float[4] s = {1, 1, 1, 0.5}> {
    y = Resize <mode = "linear", antialias = 1> (x, , s)
}
"""
INPUTS = {"x": np.array([[[[0, 0, 8, 0], [0, 0, 8, 0]]]], np.float32)}
RIGHT = np.array([[[[1, 3], [1, 3]]]], np.float32)
WITHIN = 1e-5
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

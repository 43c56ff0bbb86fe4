"""The inverse DFT of real numbers has numbers that are nowhere.

DFT: 'inverse: Whether to perform the inverse discrete Fourier Transform', of a signal whose last axis has 1 element,
the real part. What stands behind the signal is read. The transform that is not inverse is right.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 20]>
g (float[1,2,1] x) => (float[1,2,2] y) {
    y = DFT <inverse = 1> (x)
}
"""
INPUTS = {"x": np.array([[[3], [1]]], np.float32)}
RIGHT = np.array([[[2, 0], [1, 0]]], np.float32)
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

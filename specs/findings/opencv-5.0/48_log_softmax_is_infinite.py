"""LogSoftmax of a number far below the greatest is -inf.

LogSoftmax: 'the log of softmax values': 0 - log(exp(0) + exp(-200)) is 0, and the other is -200. It takes the
logarithm of a softmax that was rounded to 0. Of what is 88 below the greatest it is -inf already.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 22]>
g (float[1,2] x) => (float[1,2] y) {
    y = LogSoftmax(x)
}
"""
INPUTS = {"x": np.array([[0.0, -200.0]], np.float32)}
RIGHT = np.array([[0.0, -200.0]], np.float32)
WITHIN = 0.001
"""The relative error that may be left, which no rounding explains."""


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

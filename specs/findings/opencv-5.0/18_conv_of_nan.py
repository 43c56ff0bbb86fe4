"""Conv of NaN is the greatest finite number.

Conv: 'The convolution operator consumes an input tensor and a filter, and computes the output'. The product of NaN is
NaN. Infinity becomes the greatest finite number too.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[1,1,1,2] x, float[1,1,1,1] w) => (float[1,1,1,2] y) {
    y = Conv(x, w)
}
"""
INPUTS = {"x": np.array([[[[np.nan, 1]]]], np.float32), "w": np.ones((1, 1, 1, 1), np.float32)}
RIGHT = np.array([[[[np.nan, 1]]]], np.float32)
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

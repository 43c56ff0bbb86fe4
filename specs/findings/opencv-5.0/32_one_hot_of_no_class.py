"""OneHot of an index that is too large is that of the first.

OneHot: 'outside the range [-depth, depth-1] will result in one-hot representation with all' off. 2 of two classes is
such an index.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 11]>
g (int64[1] x, float[2] v) => (float[1,2] y) <int64 d = {2}> {
    y = OneHot(x, d, v)
}
"""
INPUTS = {"x": np.array([2]), "v": np.array([0, 1], np.float32)}
RIGHT = np.array([[0, 0]], np.float32)
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

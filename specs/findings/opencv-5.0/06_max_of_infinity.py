"""ReduceMax of -inf is the least finite number.

ReduceMax: 'along the provided axes'; -inf is the only value. MaxPool gives the same of a
window of which a part is padding, and is right elsewhere.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[1] y) {
    y = ReduceMax(x)
}
"""
INPUTS = {"x": np.array([-np.inf, -np.inf], np.float32)}
RIGHT = np.array([-np.inf], np.float32)
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

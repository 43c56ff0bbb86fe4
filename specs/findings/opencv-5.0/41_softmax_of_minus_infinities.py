"""Softmax of nothing but -inf is 0.

Softmax: 'Softmax(input, axis) = Exp(input) / ReduceSum(Exp(input), axis=axis, keepdims=1)', which is 0 / 0; with the
maximum taken off first it is -inf - -inf.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[1,2] x) => (float[1,2] y) {
    y = Softmax(x)
}
"""
INPUTS = {"x": np.full((1, 2), -np.inf, np.float32)}
RIGHT = np.full((1, 2), np.nan, np.float32)
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

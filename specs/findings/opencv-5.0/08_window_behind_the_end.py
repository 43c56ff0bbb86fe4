"""MaxPool with ceil_mode has windows behind the end.

MaxPool: 'Sliding windows that would start in the right padded region are ignored'. The input has two rows and
columns, and a second window of one element would start behind them.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 22]>
g (float[1,1,2,2] x) => (float[1,1,1,1] y) {
    y = MaxPool <kernel_shape = [1, 1], strides = [2, 2], ceil_mode = 1> (x)
}
"""
INPUTS = {"x": np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)}
RIGHT = np.array([[[[0]]]], np.float32)
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

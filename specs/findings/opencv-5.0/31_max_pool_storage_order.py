"""MaxPool takes no notice of storage_order.

MaxPool: 'This attribute is used only to convert an n-tuple index value into a single integer value for producing the
second output'. The greatest of two rows and columns is the second of the first row; by columns it is the third.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 12]>
g (float[1,1,2,2] x) => (int64[1,1,1,1] i) {
    y, i = MaxPool <kernel_shape = [2, 2], storage_order = 1> (x)
}
"""
INPUTS = {"x": np.array([0, 1, 0, 0], np.float32).reshape(1, 1, 2, 2)}
RIGHT = np.array([[[[2]]]])
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

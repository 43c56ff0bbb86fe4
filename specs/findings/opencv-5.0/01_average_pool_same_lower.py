"""AveragePool with SAME_LOWER pads behind.

AveragePool: 'pad the input so that'; with SAME_LOWER the odd pad stands in front. What is given is what SAME_UPPER
gives. MaxPool does the same.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 19]>
g (float[1,1,3,3] x) => (float[1,1,3,3] y) {
    y = AveragePool <kernel_shape = [2, 2], auto_pad = "SAME_LOWER"> (x)
}
"""
INPUTS = {"x": np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3)}
RIGHT = np.array([[[[0, 0.5, 1.5], [1.5, 2, 3], [4.5, 5, 6]]]], np.float32)
WITHIN = 1e-6
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

"""ReduceSum over the axes 0, 2 and 3 counts the second of three twice.

ReduceSum-11: the sum is that of all elements 'along the provided axes'. The third is left out; of four the second
counts three times. ReduceMean, ReduceMax and others do the same.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 11]>
g (float[3,2,1,1] x) => (float[1,2,1,1] y) {
    y = ReduceSum <axes = [0, 2, 3]> (x)
}
"""
INPUTS = {"x": np.array([1, 0, 2, 0, 6, 0], np.float32).reshape(3, 2, 1, 1)}
RIGHT = np.array([9, 0], np.float32).reshape(1, 2, 1, 1)
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

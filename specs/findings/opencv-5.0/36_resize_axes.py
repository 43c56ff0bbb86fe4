"""Resize takes no notice of the order of axes.

Resize: 'it specifies a subset of axes that' roi, scales and sizes 'refer to', and the first of the sizes is that of
axis 3. The numbers of roi are mistaken in the same way.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 19]>
g (float[1,1,1,1] x, int64[2] s) => (float[1,1,1,2] y) {
    y = Resize <mode = "nearest", axes = [3, 2]> (x, , , s)
}
"""
INPUTS = {"x": np.ones((1, 1, 1, 1), np.float32), "s": np.array([2, 1])}
RIGHT = np.ones((1, 1, 1, 2), np.float32)
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

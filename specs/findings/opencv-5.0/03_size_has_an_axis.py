"""Size gives a tensor with an axis.

Size: 'Outputs a int64 scalar'; that has no axes. Tensors without axes pass through other operators.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2,3] x) => (int64 y) {
    y = Size(x)
}
"""
INPUTS = {"x": np.zeros((2, 3), np.float32)}
RIGHT = np.array(6)
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

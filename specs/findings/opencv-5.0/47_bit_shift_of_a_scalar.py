"""BitShift of scalars gives what stood in memory.

BitShift: 'Bitwise shift operator performs element-wise operation'. In tensors of one axis it is right.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (uint8 x, uint8 z) => (uint8 y) {
    y = BitShift <direction = "LEFT"> (x, z)
}
"""
INPUTS = {"x": np.array(3, np.uint8), "z": np.array(2, np.uint8)}
RIGHT = np.array(12, np.uint8)
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

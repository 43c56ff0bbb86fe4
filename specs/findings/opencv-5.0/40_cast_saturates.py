"""Cast of 256 to uint8 is 255.

Cast: 'when OOR, discard higher bits and reinterpret'. The lower eight bits of 256 are 0, and those of -1 are ones.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (int32[2] x) => (uint8[2] y) {
    y = Cast <to = 2> (x)
}
"""
INPUTS = {"x": np.array([256, -1], np.int32)}
RIGHT = np.array([0, 255], np.uint8)
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

"""GatherND of the index -1 reads what is no element.

GatherND: 'All index values are expected to be within bounds [-s, s-1] along axis of size s'. The index -1 is the last
element.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x, int64[1,1] i) => (float[1] y) {
    y = GatherND(x, i)
}
"""
INPUTS = {"x": np.array([2, 3], np.float32), "i": np.array([[-1]])}
RIGHT = np.array([3], np.float32)
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

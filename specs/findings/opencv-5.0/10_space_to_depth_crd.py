"""SpaceToDepth takes no notice of mode.

SpaceToDepth: 'Use CRD for column-row-depth order'. The attribute is new in version 28, which the model names: it is
taken, and read as if the attribute were not there.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 28]>
g (float[1,2,2,2] x) => (float[1,8,1,1] y) {
    y = SpaceToDepth <blocksize = 2, mode = "CRD"> (x)
}
"""
INPUTS = {"x": np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2)}
RIGHT = np.arange(8, dtype=np.float32).reshape(1, 8, 1, 1)
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

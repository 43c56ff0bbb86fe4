"""DFT along the axis -2 is made along no axis.

DFT: 'Default is `-2` (last signal axis)', which is the first one here. The transform is made along axis 1,
the default of version 17, whatever is given: what comes are the numbers themselves; of three values two are wanted.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 20]>
g (float[3,1] x) => (float[2,2] y) {
    y = DFT <onesided = 1> (x)
}
"""
INPUTS = {"x": np.ones((3, 1), np.float32)}
RIGHT = np.array([[3, 0], [0, 0]], np.float32)
WITHIN = 1e-5
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

"""Log of a subnormal number is that of 2^-150.

Log: 'Calculates the natural log of the given input tensor, element-wise'. It is neither that of the number nor that of
0, which is -inf, and which is given for 0.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[2] y) {
    y = Log(x)
}
"""
INPUTS = {"x": np.array([3.67342e-40, 1], np.float32)}
RIGHT = np.array([-90.80228, 0], np.float32)
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

"""GridSample of mode cubic is linear.

GridSample: 'Three interpolation modes: linear (default), nearest and cubic'. The middle of four numbers of which the
third is 8; the mode was called bicubic before version 20.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 20]>
g (float[1,1,1,4] x, float[1,1,1,2] z) => (float[1,1,1,1] y) {
    y = GridSample <mode = "cubic", align_corners = 1> (x, z)
}
"""
INPUTS = {"x": np.array([0, 0, 8, 0], np.float32).reshape(1, 1, 1, 4), "z": np.zeros((1, 1, 1, 2), np.float32)}
RIGHT = np.array([[[[4.75]]]], np.float32)
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

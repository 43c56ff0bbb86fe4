"""Resize of mode half_pixel_symmetric is asymmetric.

Resize: 'x_ori = offset + (x + 0.5) / scale - 0.5'. Of a whole scale it is what half_pixel is: the second element is
made at 0.25. What is given is made at 0.5.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 19]>
g (float[1,1,2,2] x) => (float[1,1,2,4] y) <float[4] s = {1, 1, 1, 2}> {
    y = Resize <mode = "linear", coordinate_transformation_mode = "half_pixel_symmetric"> (x, , s)
}
"""
INPUTS = {"x": np.array([[[[0, 4], [0, 4]]]], np.float32)}
RIGHT = np.array([[[[0, 1, 3, 4], [0, 1, 3, 4]]]], np.float32)
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

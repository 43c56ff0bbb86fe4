"""AveragePool with ceil_mode counts what is behind the padding.

AveragePool: 'The output of each pooling window is divided by the number of elements (exclude pad when attribute
count_include_pad is zero)'. The window of three reaches one beyond the input, which has no pads; there is no element
and no pad.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 22]>
g (float[1,1,1,2] x) => (float[1,1,1,1] y) {
    y = AveragePool <ceil_mode = 1, count_include_pad = 1, kernel_shape = [1, 3], strides = [1, 2]> (x)
}
"""
INPUTS = {"x": np.ones((1, 1, 1, 2), np.float32)}
RIGHT = np.ones((1, 1, 1, 1), np.float32)
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

"""ReduceSum to a scalar has an axis.

ReduceSum: 'If `keepdims` equals 0, then the resulting tensor has the reduced dimension pruned'. Of one axis none is
left. Det and ReduceMax do the same.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float y) {
    y = ReduceSum <keepdims = 0> (x)
}
"""
INPUTS = {"x": np.array([1, 2], np.float32)}
RIGHT = np.array(3, np.float32)
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

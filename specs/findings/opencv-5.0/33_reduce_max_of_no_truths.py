"""ReduceMax of no truth values is true.

ReduceMax: 'Reduction over an empty set of values yields minus infinity (if supported by the datatype) or the minimum
value of the data type otherwise'. The least truth value is false.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 20]>
g (bool[0,1] x) => (bool[1,1] y) <int64[1] a = {0}> {
    y = ReduceMax(x, a)
}
"""
INPUTS = {"x": np.zeros((0, 1), np.bool_)}
RIGHT = np.array([[False]])
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

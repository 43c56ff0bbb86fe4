"""Det of one matrix has an axis.

Det: 'When the input is 2-D, the output is a scalar(shape is empty: `[]`)'. ReduceMax and ReduceSum of one element do
the same. So do NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2,2] x) => (float y) {
    y = Det(x)
}
"""
INPUTS = {"x": np.array([[2, 0], [0, 1]], np.float32)}
RIGHT = np.array(2, np.float32)
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

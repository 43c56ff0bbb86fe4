"""MaxPool of -inf is the least finite number.

MaxPool: 'max pooling consisting of computing the max on all values of a subset of the input tensor'; -inf is
the only value. GlobalMaxPool does the same; in double it is right.
"""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = """
<ir_version: 8, opset_import: ["" : 22]>
g (float[1,1,2] x) => (float[1,1,1] y) {
    y = MaxPool <kernel_shape = [2]> (x)
}
"""
INPUTS = {"x": np.array([[[-np.inf, -np.inf]]], np.float32)}
RIGHT = np.array([[[-np.inf]]], np.float32)
WITHIN = 0.0
"""It is exact."""


def given():
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    model = onnx.parser.parse_model(MODEL).SerializeToString()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, INPUTS)[0])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

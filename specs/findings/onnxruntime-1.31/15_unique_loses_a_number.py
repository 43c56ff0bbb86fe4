"""Unique loses a number beside NaN.

Unique: 'Find the unique elements of a tensor'; 1 is one of them, and the only one that is no NaN. Whether
two NaNs are one element, and their order, is not said.
"""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = """
<ir_version: 8, opset_import: ["" : 22]>
g (float[3] x) => (float[n] y) {
    y = Unique(x)
}
"""
INPUTS = {"x": np.array([np.nan, 1.0, np.nan], np.float32)}
RIGHT = np.array([1.0, np.nan], np.float32)
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

"""Sigmoid of -18 is 0, and of -17 more than twice what is right.

Sigmoid: 'y = 1 / (1 + exp(-x))'. Of -17 that is 4.1e-8, of -18 1.5e-8.
"""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = """
<ir_version: 8, opset_import: ["" : 22]>
g (float[2] x) => (float[2] y) {
    y = Sigmoid(x)
}
"""
INPUTS = {"x": np.array([-17.0, -18.0], np.float32)}
RIGHT = np.array([4.1399375e-08, 1.522998e-08], np.float32)
WITHIN = 0.01
"""The relative error that may be left, which no rounding explains."""


def given():
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    model = onnx.parser.parse_model(MODEL).SerializeToString()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, INPUTS)[0])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

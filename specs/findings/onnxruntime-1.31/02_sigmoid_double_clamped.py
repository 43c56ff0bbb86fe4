"""Sigmoid of -37.5 in double is 0.

Sigmoid: 'y = 1 / (1 + exp(-x))', 5.2e-17 here, far above the least double.
"""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = """
<ir_version: 8, opset_import: ["" : 22]>
g (double[2] x) => (double[2] y) {
    y = Sigmoid(x)
}
"""
INPUTS = {"x": np.array([-37.5, -36.0], np.float64)}
RIGHT = np.array([5.175555005801869e-17, 2.319522830243569e-16], np.float64)
WITHIN = 0.001
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

"""Cos in double has half of its digits where the cosine is small.

Cos: 'the cosine of the given input tensor, element-wise', tensor(double) to tensor(double). Near the root all
but eight digits are lost.
"""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = """
<ir_version: 8, opset_import: ["" : 22]>
g (double[2] x) => (double[2] y) {
    y = Cos(x)
}
"""
INPUTS = {"x": np.array([11.0, 1.5707963], np.float64)}
RIGHT = np.array([0.004425697988050785, 2.6794896585028633e-08], np.float64)
WITHIN = 1e-11
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

"""Pow of int64 is computed in double.

Pow: 'f(x) = x^exponent', of the type of x: 3 to the 39th is an int64.
"""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = """
<ir_version: 8, opset_import: ["" : 22]>
g (int64[2] x, int64[2] e) => (int64[2] y) {
    y = Pow(x, e)
}
"""
INPUTS = {"x": np.array([3, 9007199254740993], np.int64), "e": np.array([39, 1], np.int64)}
RIGHT = np.array([4052555153018976267, 9007199254740993], np.int64)
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

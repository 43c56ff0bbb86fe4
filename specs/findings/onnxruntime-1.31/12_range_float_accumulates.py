"""Range adds up its steps, and gets stuck.

Range: 'output[i] = start + (i * delta)'. Each number here is 2**24.
"""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = """
<ir_version: 8, opset_import: ["" : 22]>
g (float a, float b, float c) => (float[n] y) {
    y = Range(a, b, c)
}
"""
INPUTS = {
    "a": np.array(16777216.0, np.float32),
    "b": np.array(16777222.0, np.float32),
    "c": np.array(1.0, np.float32),
}
RIGHT = np.array([16777216.0, 16777216.0, 16777218.0, 16777220.0, 16777220.0, 16777220.0], np.float32)
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

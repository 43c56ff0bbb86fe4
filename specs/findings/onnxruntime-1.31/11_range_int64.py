"""Range of int64 has one number too many.

Range: 'number_of_elements = max( ceil( (limit - start) / delta ) , 0 )', 3 here.
"""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = """
<ir_version: 8, opset_import: ["" : 22]>
g (int64 a, int64 b, int64 c) => (int64[n] y) {
    y = Range(a, b, c)
}
"""
INPUTS = {
    "a": np.array(9007199254740992, np.int64),
    "b": np.array(9007199254740995, np.int64),
    "c": np.array(1, np.int64),
}
RIGHT = np.array([9007199254740992, 9007199254740993, 9007199254740994], np.int64)
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

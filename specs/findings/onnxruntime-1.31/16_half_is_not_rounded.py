"""A float16 between two operators is not rounded to float16.

Exp: its output is a tensor(float16), so it is inf, and the tangent of inf is NaN. Casts to float32 are put
around each operator, and two that meet are taken out, with the rounding. Without optimisations it is right.
"""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = """
<ir_version: 8, opset_import: ["" : 22]>
g (float16[1] x) => (float16[1] y) {
    t = Exp(x)
    y = Tan(t)
}
"""
INPUTS = {"x": np.array([12.0], np.float16)}
RIGHT = np.array([np.nan], np.float16)
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

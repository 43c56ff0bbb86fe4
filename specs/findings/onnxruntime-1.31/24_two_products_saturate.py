"""MatMulInteger of uint8 by int8 adds two products in 16 bits, where a processor has no VNNI instructions: the sum of
two ends at 32767.

MatMulInteger: 'The production MUST never overflow. The accumulation may overflow if and only if in 32 bits'. With VNNI
instructions the result is right.
"""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = """
<ir_version: 8, opset_import: ["" : 13]>
g (uint8[1, 2] x, int8[2, 1] w) => (int32[1, 1] y) {
    y = MatMulInteger(x, w)
}
"""
INPUTS = {"x": np.array([[255, 255]], np.uint8), "w": np.array([[127], [127]], np.int8)}
RIGHT = np.array([[64770]], np.int32)
WITHIN = 0


def given():
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    model = onnx.parser.parse_model(MODEL).SerializeToString()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, INPUTS)[0])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

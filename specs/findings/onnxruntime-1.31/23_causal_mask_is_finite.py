"""Attention with is_causal shows the smallest number in place of -infinity.

Attention-24: 'its disallowed positions contribute `-inf` to the bias'. The first of two queries does not see the second
key; the scores with the mask are asked for, by qk_matmul_output_mode.
"""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = """
<ir_version: 8, opset_import: ["" : 24]>
g (float[1,1,2,1] q, float[1,1,2,1] k, float[1,1,2,1] v) => (float[1,1,2,2] y) {
    o, , , y = Attention <is_causal = 1, qk_matmul_output_mode = 2> (q, k, v)
}
"""
INPUTS = {n: np.zeros((1, 1, 2, 1), np.float32) for n in "qkv"}
RIGHT = np.array([[[[0, -np.inf], [0, 0]]]], np.float32)
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

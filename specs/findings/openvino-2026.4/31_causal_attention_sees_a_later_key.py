"""Attention with is_causal and past_key sees a later key.

Attention-24: 'query `i` attends key `j` iff `j <= i + offset`', and 'offset = past_sequence_length', which is 1: the
only query sees the past key and the first of the two that are new. It is given the mean of three values; its frontier
seems to be put at the last key.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 24]>
g (float[1,1,1,1] q, float[1,1,2,1] k, float[1,1,2,1] v, float[1,1,1,1] pk, float[1,1,1,1] pv)
    => (float[1,1,1,1] y, float[1,1,3,1] nk, float[1,1,3,1] nv) {
    y, nk, nv = Attention <is_causal = 1> (q, k, v, , pk, pv)
}
"""
INPUTS = {
    "q": np.zeros((1, 1, 1, 1), np.float32),
    "k": np.zeros((1, 1, 2, 1), np.float32),
    "v": np.array([2, 6], np.float32).reshape(1, 1, 2, 1),
    "pk": np.zeros((1, 1, 1, 1), np.float32),
    "pv": np.ones((1, 1, 1, 1), np.float32),
}
RIGHT = np.array([[[[1.5]]]], np.float32)
WITHIN = 1e-6
"""Some units in the last place."""


def given():
    import openvino

    core = openvino.Core()
    model = core.read_model(onnx.parser.parse_model(MODEL).SerializeToString())
    compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return np.array(compiled(INPUTS)[0])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

"""Attention with is_causal and nonpad_kv_seqlen has no offset.

Attention-25: '`offset = nonpad_kv_seqlen - q_sequence_length` (per batch) when an external cache is indicated', here 1:
the only query sees both keys. It is given the first value alone.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 25]>
g (float[1,1,1,1] q, float[1,1,2,1] k, float[1,1,2,1] v, int64[1] n) => (float[1,1,1,1] y) {
    y = Attention <is_causal = 1> (q, k, v, , , , n)
}
"""
INPUTS = {
    "q": np.zeros((1, 1, 1, 1), np.float32),
    "k": np.zeros((1, 1, 2, 1), np.float32),
    "v": np.array([1, 2], np.float32).reshape(1, 1, 2, 1),
    "n": np.array([2], np.int64),
}
RIGHT = np.array([[[[1.5]]]], np.float32)
WITHIN = 1e-6
"""Some units in the last place."""


def given():
    from emx_onnx_cgen.onnx_backend import prepare

    return np.array(prepare(onnx.parser.parse_model(MODEL)).run(list(INPUTS.values()))[0])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

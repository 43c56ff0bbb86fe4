"""LinearAttention of float16 keeps its state in float16.

LinearAttention: 'S_t = S_{t-1} + k_t ⊗ v_t', in float32 by its function in ONNX. In float16 2048 and 1 are 2048, twice.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 27]>
g (float16[1,3,1] q, float16[1,3,1] k, float16[1,3,1] v) => (float16[1,3,1] y) {
    y, _ = LinearAttention <q_num_heads = 1, kv_num_heads = 1, update_rule = "linear", scale = 1.0> (q, k, v)
}
"""
INPUTS = {
    "q": np.ones((1, 3, 1), np.float16),
    "k": np.ones((1, 3, 1), np.float16),
    "v": np.array([[[2048], [1], [1]]], np.float16),
}
RIGHT = np.array([[[2048], [2048], [2050]]], np.float16)
WITHIN = 0.0
"""It is exact."""


def given():
    from emx_onnx_cgen.onnx_backend import prepare

    return np.array(prepare(onnx.parser.parse_model(MODEL)).run(list(INPUTS.values()))[0])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

"""Causal Attention with a past does not see the present.

Attention: '`offset = past_sequence_length` when `past_key` is provided'. The query stands behind the past, which is 3,
and sees the present too, which is 1.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 28]>
g (float[1,1,1,1] q, float[1,1,1,1] v, float[1,1,1,1] r) => (float[1,1,1,1] y, float[1,1,2,1] a, float[1,1,2,1] b) {
    y, a, b = Attention <is_causal = 1> (q, q, v, "", q, r)
}
"""
INPUTS = {
    "q": np.zeros((1, 1, 1, 1), np.float32),
    "v": np.ones((1, 1, 1, 1), np.float32),
    "r": np.full((1, 1, 1, 1), 3, np.float32),
}
RIGHT = np.full((1, 1, 1, 1), 2, np.float32)
WITHIN = 1e-5
"""Some units in the last place."""


def given():
    from tinygrad import Tensor
    from tinygrad.nn.onnx import OnnxRunner

    model = onnx.parser.parse_model(MODEL).SerializeToString()
    return OnnxRunner(Tensor(model))({name: Tensor(value) for name, value in INPUTS.items()})["y"].numpy()


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

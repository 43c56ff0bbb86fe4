"""Attention with fewer heads of keys takes them in turn.

Attention: 'Group-query Attention (GQA): Described in the paper https://arxiv.org/pdf/2305.13245'. There heads that
stand together are a group; and ONNX's expansion of the operator repeats each head in its place.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 23]>
g (float[1,4,1,1] q, float[1,2,1,1] k, float[1,2,1,1] v) => (float[1,4,1,1] y) {
    y = Attention(q, k, v)
}
"""
INPUTS = {
    "q": np.zeros((1, 4, 1, 1), np.float32),
    "k": np.zeros((1, 2, 1, 1), np.float32),
    "v": np.array([1, 2], np.float32).reshape(1, 2, 1, 1),
}
RIGHT = np.array([1, 1, 2, 2], np.float32).reshape(1, 4, 1, 1)
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

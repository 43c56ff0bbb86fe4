"""Attention caps behind the mask.

Attention: 'The soft cap is applied before mask / bias addition and softmax'. The first key is masked; what is given
has tanh(-inf) of it.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 28]>
g (float[1,1,1,1] q, float[1,1,2,1] k, float[1,1,2,1] v, float[1,2] m) => (float[1,1,1,1] y) {
    y = Attention <softcap = 1.0> (q, k, v, m)
}
"""
INPUTS = {
    "q": np.zeros((1, 1, 1, 1), np.float32),
    "k": np.zeros((1, 1, 2, 1), np.float32),
    "v": np.array([1, 2], np.float32).reshape(1, 1, 2, 1),
    "m": np.array([[-np.inf, 0]], np.float32),
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

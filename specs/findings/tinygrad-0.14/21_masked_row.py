"""Attention of a row that is masked is NaN.

Attention-23: 'produces a zero output row (matching prevailing runtime practice)'. All keys are masked.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 23]>
g (float[1,1,1,1] q, float[1,1,2,1] k, float[1,1,2,1] v, bool[1,2] m) => (float[1,1,1,1] y) {
    y = Attention(q, k, v, m)
}
"""
INPUTS = {
    "q": np.zeros((1, 1, 1, 1), np.float32),
    "k": np.zeros((1, 1, 2, 1), np.float32),
    "v": np.ones((1, 1, 2, 1), np.float32),
    "m": np.zeros((1, 2), bool),
}
RIGHT = np.zeros((1, 1, 1, 1), np.float32)
WITHIN = 0.0
"""It is exact."""


def given():
    from tinygrad import Tensor
    from tinygrad.nn.onnx import OnnxRunner

    model = onnx.parser.parse_model(MODEL).SerializeToString()
    return OnnxRunner(Tensor(model))({name: Tensor(value) for name, value in INPUTS.items()})["y"].numpy()


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

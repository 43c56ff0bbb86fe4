"""Div of 0 by itself is 1.

Div: 'Performs element-wise binary division'. 0 / 0 is no number (IEEE 754, 7.2). Infinity less itself is
none either, nor is Mod of 0 by itself, and both are 0 here.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[2] y) {
    y = Div(x, x)
}
"""
INPUTS = {"x": np.array([0, 2], np.float32)}
RIGHT = np.array([np.nan, 1], np.float32)
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

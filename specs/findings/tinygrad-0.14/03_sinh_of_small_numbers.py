"""Sinh of a small number has three digits.

Sinh: 'Calculates the hyperbolic sine of the given input tensor element-wise', which is near 0 the number itself. What
is given is half the difference of two exponentials near 1. Asinh loses as much.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[1] x) => (float[1] y) {
    y = Sinh(x)
}
"""
INPUTS = {"x": np.array([1e-5], np.float32)}
RIGHT = np.array([1e-5], np.float32)
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

"""Cosh of 89 is infinite.

Cosh: 'Calculates the hyperbolic cosine of the given input tensor element-wise', which is half of an exponential that
overflows. So is Sinh of 89.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[1] x) => (float[1] y) {
    y = Cosh(x)
}
"""
INPUTS = {"x": np.array([89], np.float32)}
RIGHT = np.array([2.2448064e38], np.float32)
WITHIN = 1e-6
"""Some units in the last place."""


def given():
    from tinygrad import Tensor
    from tinygrad.nn.onnx import OnnxRunner

    model = onnx.parser.parse_model(MODEL).SerializeToString()
    return OnnxRunner(Tensor(model))({name: Tensor(value) for name, value in INPUTS.items()})["y"].numpy()


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

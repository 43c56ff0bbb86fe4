"""Mul of 0 and an infinite Reciprocal is 0.

Reciprocal: 'y = 1/x, is applied to the tensor elementwise'. 1 / 1e-40 is infinite in float32, as it is by itself;
what is given is the quotient of the two numbers.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 13]>
g (float[2] x, float[2] z) => (float[2] y) {
    over = Reciprocal(z)
    y = Mul(x, over)
}
"""
INPUTS = {"x": np.array([0, 1e-40], np.float32), "z": np.array([1e-40, 1e-40], np.float32)}
RIGHT = np.array([np.nan, np.inf], np.float32)
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

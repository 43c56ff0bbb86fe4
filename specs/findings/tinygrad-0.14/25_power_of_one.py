"""Pow of 1 and NaN is NaN.

Pow: 'the function `f(x) = x^exponent`, is applied to the data tensor elementwise'. The power of 1 is 1 for any
exponent, NaN too (IEEE 754, 9.2.1). That of NaN and 0 is 1 here.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[1] x, float[1] z) => (float[1] y) {
    y = Pow(x, z)
}
"""
INPUTS = {"x": np.array([1], np.float32), "z": np.array([np.nan], np.float32)}
RIGHT = np.array([1], np.float32)
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

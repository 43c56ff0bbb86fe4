"""Pow of -1 and 4294967296 is NaN.

Pow: 'the function `f(x) = x^exponent`, is applied to the data tensor elementwise'. The exponent is whole, and even;
as an int32 it is not.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[1] x, float[1] z) => (float[1] y) {
    y = Pow(x, z)
}
"""
INPUTS = {"x": np.array([-1], np.float32), "z": np.array([4294967296], np.float32)}
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

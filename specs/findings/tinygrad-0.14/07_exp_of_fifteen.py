"""Exp of 15 is off by 6 units in the last place.

Exp: 'Calculates the exponential of the given input tensor, element-wise'. It may be off by 4 (M9.2). Sinh, Cosh and
Sigmoid have more of it: 23 units for Sinh of 87.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[1] x) => (float[1] y) {
    y = Exp(x)
}
"""
INPUTS = {"x": np.array([15], np.float32)}
RIGHT = np.array([3269017.4], np.float32)
WITHIN = 5e-7
"""Some units in the last place."""


def given():
    from tinygrad import Tensor
    from tinygrad.nn.onnx import OnnxRunner

    model = onnx.parser.parse_model(MODEL).SerializeToString()
    return OnnxRunner(Tensor(model))({name: Tensor(value) for name, value in INPUTS.items()})["y"].numpy()


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

"""Selu has constants of six digits.

Selu: 'Coefficient of SELU default to 1.05070102214813232421875'. What is given is 1.0507, and 1.67326 for alpha.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[1] x) => (float[1] y) {
    y = Selu(x)
}
"""
INPUTS = {"x": np.array([1], np.float32)}
RIGHT = np.array([1.050701], np.float32)
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

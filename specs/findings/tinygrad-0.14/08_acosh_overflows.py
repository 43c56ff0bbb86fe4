"""Acosh of 1.8e19 is infinite.

Acosh: 'Calculates the hyperbolic arccosine of the given input tensor element-wise'. The square of the number
overflows.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[1] x) => (float[1] y) {
    y = Acosh(x)
}
"""
INPUTS = {"x": np.array([1.8446744e19], np.float32)}
RIGHT = np.array([45.054566], np.float32)
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

"""Cos of double has the digits of float.

Cos: 'Calculates the cosine of the given input tensor, element-wise'.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 22]>
g (double[1] x) => (double[1] y) {
    y = Cos(x)
}
"""
INPUTS = {"x": np.array([873.8565999838344])}
RIGHT = np.array([0.8805180708555024])
WITHIN = 1e-13
"""Some units in the last place."""


def given():
    from tinygrad import Tensor
    from tinygrad.nn.onnx import OnnxRunner

    model = onnx.parser.parse_model(MODEL).SerializeToString()
    return OnnxRunner(Tensor(model))({name: Tensor(value) for name, value in INPUTS.items()})["y"].numpy()


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

"""Tanh of 0.00195 is off by 16 units in the last place.

Tanh: 'Calculates the hyperbolic tangent of the given input tensor element-wise'. It may be off by 4 (M9.2).
Mish has it of that.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[1] x) => (float[1] y) {
    y = Tanh(x)
}
"""
INPUTS = {"x": np.array([0.001953125], np.float32)}
RIGHT = np.array([0.0019531225], np.float32)
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

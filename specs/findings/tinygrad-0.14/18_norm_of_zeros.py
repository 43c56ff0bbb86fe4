"""LpNormalization of zeros is NaN.

LpNormalization: 'the output is defined to be zero to avoid division by zero'.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 22]>
g (float[1] x) => (float[1] y) {
    y = LpNormalization <axis = 0> (x)
}
"""
INPUTS = {"x": np.zeros(1, np.float32)}
RIGHT = np.zeros(1, np.float32)
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

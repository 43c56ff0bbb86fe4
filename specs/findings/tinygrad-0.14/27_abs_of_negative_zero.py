"""Abs of -0 is -0.

Abs: 'absolute value, y = abs(x), is applied to the tensor elementwise', which is no negative number.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[2] y) {
    y = Abs(x)
}
"""
INPUTS = {"x": np.array([-0.0, -1], np.float32)}
RIGHT = np.array([0, 1], np.float32)
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

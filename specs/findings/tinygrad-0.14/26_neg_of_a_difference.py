"""Neg of the difference of 0 and 0 is 0.

Neg: 'each element flipped sign'. It seems to be computed as z - x, which is 0 too; alone Neg of 0 is -0. The reciprocal
tells it: it is infinity, and minus infinity is right. Neg of -0 + 0, where that 0 is a constant, is alike.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[1] x, float[1] z) => (float[1] y) {
    difference = Sub(x, z)
    y = Neg(difference)
}
"""
INPUTS = {"x": np.array([0], np.float32), "z": np.array([0], np.float32)}
RIGHT = np.array([-0.0], np.float32)
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

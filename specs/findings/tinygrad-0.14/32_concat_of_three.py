"""Concat of three parts that are not as long makes 0 of -0.

Concat: 'Concatenate a list of tensors into a single tensor'. What is given is a sum of what is filled up with zeros,
and -0 + 0 is 0. Of one, one and two numbers it is right.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 13]>
g (float[3] a, float[3] b, float[2] c) => (float[8] y) {
    y = Concat <axis = 0> (a, b, c)
}
"""
INPUTS = {
    "a": np.array([-0.0, 1, 2], np.float32),
    "b": np.array([3, 4, 5], np.float32),
    "c": np.array([6, 7], np.float32),
}
RIGHT = np.array([-0.0, 1, 2, 3, 4, 5, 6, 7], np.float32)
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

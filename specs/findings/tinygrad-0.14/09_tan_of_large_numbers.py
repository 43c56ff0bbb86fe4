"""Tan of -3.4e38 is -1.

Tan: 'Calculates the tangent of the given input tensor, element-wise'. A number of 38 digits has a tangent too.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[1] x) => (float[1] y) {
    y = Tan(x)
}
"""
INPUTS = {"x": np.array([-3.4028235e38], np.float32)}
RIGHT = np.array([0.6117979], np.float32)
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

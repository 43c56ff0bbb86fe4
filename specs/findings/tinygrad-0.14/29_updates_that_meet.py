"""ScatterND adds one of two updates that meet.

ScatterND: 'output[tuple(indices[idx])] = f(output[tuple(indices[idx])], updates[idx])', one after another for all of
indices. What is given takes those along the first axis one after another, and the others at once.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 18]>
g (float[1] x, int64[1,2,1] i, float[1,2] u) => (float[1] y) {
    y = ScatterND <reduction = "add"> (x, i, u)
}
"""
INPUTS = {"x": np.array([1], np.float32), "i": np.array([[[0], [0]]]), "u": np.array([[2, 3]], np.float32)}
RIGHT = np.array([6], np.float32)
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

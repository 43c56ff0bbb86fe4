"""TopK of 1 and NaN has 1 twice.

TopK: 'contains the indices of the top k elements'. Whichever is called greater, the places of both are 0 and 1, and
their sum is 1. Of more numbers it gives -inf, which none of them is.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x, int64[1] k) => (int64[1] y) {
    values, places = TopK(x, k)
    y = ReduceSum(places)
}
"""
INPUTS = {"x": np.array([1, np.nan], np.float32), "k": np.array([2])}
RIGHT = np.array([1])
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

"""LRN leaves channels out where there are more of them than batches.

LRN: 'square_sum' over the neighbouring channels, 'max(0, c - floor((size - 1) / 2)) <= i <= min(C - 1, c +
ceil((size - 1) / 2))'. Both channels have the same neighbours.
"""

import numpy as np
import onnx.parser
from onnx.reference import ReferenceEvaluator

MODEL = """
<ir_version: 8, opset_import: ["" : 22]>
g (float[1,2,1,1] x) => (float[1,2,1,1] y) {
    y = LRN <size = 3, alpha = 1.0> (x)
}
"""
INPUTS = {"x": np.array([[[[1.0]], [[1.0]]]], np.float32)}
RIGHT = np.array([[[[0.68173159]], [[0.68173159]]]], np.float32)
WITHIN = 0.001
"""The relative error that may be left, which no rounding explains."""


def given():
    evaluator = ReferenceEvaluator(onnx.parser.parse_model(MODEL))
    with np.errstate(all="ignore"):
        return np.asarray(evaluator.run(None, INPUTS)[0])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

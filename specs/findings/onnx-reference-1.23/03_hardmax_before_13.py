"""Hardmax before opset 13 takes its last axis alone.

Hardmax-11: coerced to two axes; one 1 for the first maximum of all four.
"""

import numpy as np
import onnx.parser
from onnx.reference import ReferenceEvaluator

MODEL = """
<ir_version: 8, opset_import: ["" : 11]>
g (float[1,2,2] x) => (float[1,2,2] y) {
    y = Hardmax(x)
}
"""
INPUTS = {"x": np.array([[[1.0, 2.0], [3.0, 4.0]]], np.float32)}
RIGHT = np.array([[[0.0, 0.0], [0.0, 1.0]]], np.float32)
WITHIN = 0.0
"""It is exact."""


def given():
    evaluator = ReferenceEvaluator(onnx.parser.parse_model(MODEL))
    with np.errstate(all="ignore"):
        return np.asarray(evaluator.run(None, INPUTS)[0])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

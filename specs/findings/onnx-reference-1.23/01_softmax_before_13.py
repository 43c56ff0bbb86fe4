"""Softmax before opset 13 takes its last axis alone.

Softmax-11: 'The input does not need to explicitly be a 2D vector; rather, it will be coerced into one', from
axis 1 on: four equal numbers, a quarter each.
"""

import numpy as np
import onnx.parser
from onnx.reference import ReferenceEvaluator

MODEL = """
<ir_version: 8, opset_import: ["" : 11]>
g (float[1,2,2] x) => (float[1,2,2] y) {
    y = Softmax(x)
}
"""
INPUTS = {"x": np.array([[[0.0, 0.0], [0.0, 0.0]]], np.float32)}
RIGHT = np.array([[[0.25, 0.25], [0.25, 0.25]]], np.float32)
WITHIN = 0.001
"""The relative error that may be left, which no rounding explains."""


def given():
    evaluator = ReferenceEvaluator(onnx.parser.parse_model(MODEL))
    with np.errstate(all="ignore"):
        return np.asarray(evaluator.run(None, INPUTS)[0])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

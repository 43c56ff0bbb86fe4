"""LogSoftmax before opset 13 takes its last axis alone.

LogSoftmax-11: coerced to two axes, as Softmax-11: the logarithm of a quarter.
"""

import numpy as np
import onnx.parser
from onnx.reference import ReferenceEvaluator

MODEL = """
<ir_version: 8, opset_import: ["" : 11]>
g (float[1,2,2] x) => (float[1,2,2] y) {
    y = LogSoftmax(x)
}
"""
INPUTS = {"x": np.array([[[0.0, 0.0], [0.0, 0.0]]], np.float32)}
RIGHT = np.array([[[-1.3862944, -1.3862944], [-1.3862944, -1.3862944]]], np.float32)
WITHIN = 0.001
"""The relative error that may be left, which no rounding explains."""


def given():
    evaluator = ReferenceEvaluator(onnx.parser.parse_model(MODEL))
    with np.errstate(all="ignore"):
        return np.asarray(evaluator.run(None, INPUTS)[0])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

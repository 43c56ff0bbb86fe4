"""ReduceLogSumExp of -inf is NaN.

ReduceLogSumExp: 'the log sum exponent': log(0 + 0), -inf. Of an empty set it says so itself: 'minus
infinity'.
"""

import numpy as np
import onnx.parser
from onnx.reference import ReferenceEvaluator

MODEL = """
<ir_version: 8, opset_import: ["" : 22]>
g (float[2] x) => (float y) {
    y = ReduceLogSumExp <keepdims = 0> (x)
}
"""
INPUTS = {"x": np.array([-np.inf, -np.inf], np.float32)}
RIGHT = np.array(-np.inf, np.float32)
WITHIN = 0.0
"""It is exact."""


def given():
    evaluator = ReferenceEvaluator(onnx.parser.parse_model(MODEL))
    with np.errstate(all="ignore"):
        return np.asarray(evaluator.run(None, INPUTS)[0])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

"""A Loop with a number of trips and no condition does not run.

Loop: 'input (trip_count, "") // Note this is analogous to a for loop'.
"""

import numpy as np
import onnx.parser
from onnx.reference import ReferenceEvaluator

MODEL = """
<ir_version: 8, opset_import: ["" : 21]>
g (int64 trips, float[1] x) => (float[1] y) {
    y = Loop (trips, , x) <body = b (int64 i, bool go, float[1] v) => (bool on, float[1] w) {
        on = Identity (go)
        w = Add (v, v)
    }>
}
"""
INPUTS = {"trips": np.array(3), "x": np.array([1.0], np.float32)}
RIGHT = np.array([8.0], np.float32)
WITHIN = 0.0
"""It is exact."""


def given():
    evaluator = ReferenceEvaluator(onnx.parser.parse_model(MODEL))
    with np.errstate(all="ignore"):
        return np.asarray(evaluator.run(None, INPUTS)[0])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

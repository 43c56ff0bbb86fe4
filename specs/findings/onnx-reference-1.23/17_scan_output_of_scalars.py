"""Loop stacks numbers as rows of one.

Loop: 'user_defined_vals[i] = user_defined_val // accumulate scan-output values'. The number of each round has no axis,
so two rounds make a vector; what is given has a second axis.
"""

import numpy as np
import onnx.parser
from onnx.reference import ReferenceEvaluator

MODEL = """
<ir_version: 8, opset_import: ["" : 21]>
g (int64 trips, bool go, float x) => (float[2] y) {
    end, y = Loop (trips, go, x) <body = b (int64 i, bool c, float v) => (bool on, float w, float s) {
        on = Identity (c)
        w = Add (v, v)
        s = Identity (v)
    }>
}
"""
INPUTS = {"trips": np.array(2), "go": np.array(True), "x": np.array(1, np.float32)}
RIGHT = np.array([1, 2], np.float32)
WITHIN = 0.0
"""It is exact."""


def given():
    evaluator = ReferenceEvaluator(onnx.parser.parse_model(MODEL))
    with np.errstate(all="ignore"):
        return np.asarray(evaluator.run(["y"], INPUTS)[0])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

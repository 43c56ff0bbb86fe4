"""ReduceMean of int32 overflows where the mean does not.

ReduceMean: the mean of two equal numbers is that number. The sum wraps before it is divided.
"""

import numpy as np
import onnx.parser
from onnx.reference import ReferenceEvaluator

MODEL = """
<ir_version: 8, opset_import: ["" : 22]>
g (int32[2] x) => (int32 y) {
    y = ReduceMean <keepdims = 0> (x)
}
"""
INPUTS = {"x": np.array([2147483647, 2147483647], np.int32)}
RIGHT = np.array(2147483647, np.int32)
WITHIN = 0.0
"""It is exact."""


def given():
    evaluator = ReferenceEvaluator(onnx.parser.parse_model(MODEL))
    with np.errstate(all="ignore"):
        return np.asarray(evaluator.run(None, INPUTS)[0])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

"""AveragePool takes the average of what is no NaN.

AveragePool: 'computing the average on all values of a subset of the input tensor'; a NaN is one of them, and
no pad.
"""

import numpy as np
import onnx.parser
from onnx.reference import ReferenceEvaluator

MODEL = """
<ir_version: 8, opset_import: ["" : 22]>
g (float[1,1,2] x) => (float[1,1,1] y) {
    y = AveragePool <kernel_shape = [2]> (x)
}
"""
INPUTS = {"x": np.array([[[np.nan, 1.0]]], np.float32)}
RIGHT = np.array([[[np.nan]]], np.float32)
WITHIN = 0.0
"""It is exact."""


def given():
    evaluator = ReferenceEvaluator(onnx.parser.parse_model(MODEL))
    with np.errstate(all="ignore"):
        return np.asarray(evaluator.run(None, INPUTS)[0])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

"""Conv with dilations multiplies what lies between.

Conv: 'dilations: dilation value along each spatial axis of the filter'; the element in the middle is not
read. It is multiplied by 0, and inf * 0 is NaN.
"""

import numpy as np
import onnx.parser
from onnx.reference import ReferenceEvaluator

MODEL = """
<ir_version: 8, opset_import: ["" : 22]>
g (float[1,1,3] x, float[1,1,2] w) => (float[1,1,1] y) {
    y = Conv <dilations = [2]> (x, w)
}
"""
INPUTS = {"x": np.array([[[1.0, np.inf, 2.0]]], np.float32), "w": np.array([[[1.0, 1.0]]], np.float32)}
RIGHT = np.array([[[3.0]]], np.float32)
WITHIN = 0.0
"""It is exact."""


def given():
    evaluator = ReferenceEvaluator(onnx.parser.parse_model(MODEL))
    with np.errstate(all="ignore"):
        return np.asarray(evaluator.run(None, INPUTS)[0])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

"""Erf in double is computed in float32.

Erf: 'the error function of the given input tensor element-wise', tensor(double) to tensor(double). Gelu in
double has it from here.
"""

import numpy as np
import onnx.parser
from onnx.reference import ReferenceEvaluator

MODEL = """
<ir_version: 8, opset_import: ["" : 22]>
g (double[1] x) => (double[1] y) {
    y = Erf(x)
}
"""
INPUTS = {"x": np.array([-3.0], np.float64)}
RIGHT = np.array([-0.9999779095030014], np.float64)
WITHIN = 1e-12
"""The relative error that may be left, which no rounding explains."""


def given():
    evaluator = ReferenceEvaluator(onnx.parser.parse_model(MODEL))
    with np.errstate(all="ignore"):
        return np.asarray(evaluator.run(None, INPUTS)[0])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

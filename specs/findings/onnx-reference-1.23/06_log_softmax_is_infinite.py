"""LogSoftmax of a number far below the greatest is -inf.

LogSoftmax: 'the log of softmax values': 0 - log(exp(0) + exp(-200)) is 0, and the other is -200. It takes the
logarithm of a softmax that was rounded to 0. 'LogSoftmax(input, axis) = Log(Softmax(input, axis=axis))' is said of the
function; the operator's body in the standard (version 13) has no such rounding: it subtracts the logarithm of the sum.
"""

import numpy as np
import onnx.parser
from onnx.reference import ReferenceEvaluator

MODEL = """
<ir_version: 8, opset_import: ["" : 22]>
g (float[1,2] x) => (float[1,2] y) {
    y = LogSoftmax(x)
}
"""
INPUTS = {"x": np.array([[0.0, -200.0]], np.float32)}
RIGHT = np.array([[0.0, -200.0]], np.float32)
WITHIN = 0.001
"""The relative error that may be left, which no rounding explains."""


def given():
    evaluator = ReferenceEvaluator(onnx.parser.parse_model(MODEL))
    with np.errstate(all="ignore"):
        return np.asarray(evaluator.run(None, INPUTS)[0])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

"""Optional puts its operand into a list, and OptionalGetElement does not take it out.

OptionalGetElement: 'If the input is an optional type, it outputs the element in the input', which is x, a tensor of two
numbers; given is a list of one tensor, here as an array of two axes. Optional of a sequence is a sequence of one
sequence in the same way.
"""

import numpy as np
import onnx.parser
from onnx.reference import ReferenceEvaluator

MODEL = """
<ir_version: 8, opset_import: ["" : 18]>
g (float[2] x) => (float[2] y) {
    o = Optional(x)
    y = OptionalGetElement(o)
}
"""
INPUTS = {"x": np.array([1.0, 2.0], np.float32)}
RIGHT = np.array([1.0, 2.0], np.float32)
WITHIN = 0.0


def given():
    evaluator = ReferenceEvaluator(onnx.parser.parse_model(MODEL))
    return np.asarray(evaluator.run(None, INPUTS)[0])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

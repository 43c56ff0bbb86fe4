"""ConcatFromSequence has ten elements where the model does not say how many.

ConcatFromSequence: 'Concatenate a sequence of tensors into a single tensor', here of two elements.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[1] x) => (float[?] y) {
    s = SequenceConstruct(x, x)
    y = ConcatFromSequence <axis = 0> (s)
}
"""
INPUTS = {"x": np.array([1], np.float32)}
RIGHT = np.array([1, 1], np.float32)
WITHIN = 0.0
"""It is exact."""


def given():
    from emx_onnx_cgen.onnx_backend import prepare

    return np.array(prepare(onnx.parser.parse_model(MODEL)).run(list(INPUTS.values()))[0])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

"""A vector divided by one number near the largest float is 0.

Div: 'Performs element-wise binary division (with Numpy-style broadcasting support)'; a number divided by itself is 1.
Where the divisor is one for all elements, or a constant, they are multiplied by its reciprocal, and that of 3e38 is
subnormal, for which zero is taken; infinity divided by it is NaN. Divided by as many numbers as there are elements, it
is right.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x, float[1] y) => (float[2] z) {
    z = Div(x, y)
}
"""
INPUTS = {"x": np.array([3e38, 1e38], np.float32), "y": np.array([3e38], np.float32)}
RIGHT = np.array([1, 1 / 3], np.float32)
WITHIN = 1e-6


def given():
    from assay.verify.backends import backend, subject_of_model  # which writes StableHLO of the model

    subject = subject_of_model(onnx.parser.parse_model(MODEL))
    return np.array(backend("xla").prepare(subject, ["z"])(INPUTS)["z"])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

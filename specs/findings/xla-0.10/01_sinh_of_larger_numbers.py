"""Sinh of 36.1 is off by 13 units in the last place.

Sinh: 'Calculates the hyperbolic sine of the given input tensor element-wise', to 4 units in the last place (M9.2).
What is given is the difference of two exponentials of which the argument, x less the logarithm of 2, was rounded to
float. Cosh is computed so too.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[1] x) => (float[1] y) {
    y = Sinh(x)
}
"""
INPUTS = {"x": np.array([36.1], np.float32)}
RIGHT = np.sinh(INPUTS["x"].astype(np.float64)).astype(np.float32)
WITHIN = 5e-7
"""Some units in the last place."""


def given():
    from assay.verify.backends import backend, subject_of_model  # which writes StableHLO of the model

    subject = subject_of_model(onnx.parser.parse_model(MODEL))
    return np.array(backend("xla").prepare(subject, ["y"])(INPUTS)["y"])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

"""Atanh of 0.4142 in double is off by 128 units in the last place.

Atanh: 'Calculates the hyperbolic arctangent of the given input tensor element-wise', tensor(double) to tensor(double).
It is composed of log1p, which is off where 1 + x is near the square root of 1/2.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (double[1] x) => (double[1] z) {
    z = Atanh(x)
}
"""
INPUTS = {"x": np.array([-0.4141962])}
RIGHT = np.arctanh(INPUTS["x"])
WITHIN = 1e-15
"""Some ten units in the last place."""


def given():
    from assay.verify.backends import backend, subject_of_model  # which writes StableHLO of the model

    subject = subject_of_model(onnx.parser.parse_model(MODEL))
    return np.array(backend("xla").prepare(subject, ["z"])(INPUTS)["z"])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

"""The logarithm of a negative power is a number.

Pow: '`f(x) = x^exponent`', Log: 'Calculates the natural log of the given input tensor': (-2)^3 is -8, and the logarithm
of a negative number is NaN. XLA takes log(pow(x, y)) for y log(|x|).
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x, float[2] n) => (float[2] z) {
    y = Pow(x, n)
    z = Log(y)
}
"""
INPUTS = {"x": np.array([-2, -2], np.float32), "n": np.array([3, 2], np.float32)}
RIGHT = np.array([np.nan, np.log(4)], np.float32)
WITHIN = 1e-6


def given():
    from assay.verify.backends import backend, subject_of_model  # which writes StableHLO of the model

    subject = subject_of_model(onnx.parser.parse_model(MODEL))
    return np.array(backend("xla").prepare(subject, ["z"])(INPUTS)["z"])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

"""The logarithm of the exponential of a number is the number.

Exp: 'Calculates the exponential of the given input tensor', Log: 'Calculates the natural log of the given input
tensor':
that of 1000 is no float32 but infinity, and so is its logarithm. XLA takes log(exp(x)) for x, and gives 1000; near 0,
where the exponential is rounded to a number near 1, the logarithm is off from that of what is shown.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[2] z) {
    y = Exp(x)
    z = Log(y)
}
"""
INPUTS = {"x": np.array([1000, -200], np.float32)}
RIGHT = np.array([np.inf, -np.inf], np.float32)
WITHIN = 0


def given():
    from assay.verify.backends import backend, subject_of_model  # which writes StableHLO of the model

    subject = subject_of_model(onnx.parser.parse_model(MODEL))
    return np.array(backend("xla").prepare(subject, ["z"])(INPUTS)["z"])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

"""A NaN in one group of a convolution of doubles is in the other groups too.

Conv: 'group: number of groups input channels and output channels are divided into'; a channel of the result is a sum of
products of its own group. Of float64 the groups are made one convolution, with zeros for the weights of the other
groups, and NaN times 0 is NaN. Of float32 it is right.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (double[1, 2, 1] x, double[2, 1, 1] w) => (double[1, 2, 1] z) {
    z = Conv <group = 2> (x, w)
}
"""
INPUTS = {"x": np.array([[[np.nan], [3]]]), "w": np.array([[[1.0]], [[2.0]]])}
RIGHT = np.array([[[np.nan], [6]]])
WITHIN = 0


def given():
    from assay.verify.backends import backend, subject_of_model  # which writes StableHLO of the model

    subject = subject_of_model(onnx.parser.parse_model(MODEL))
    return np.array(backend("xla").prepare(subject, ["z"])(INPUTS)["z"])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

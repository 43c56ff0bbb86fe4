"""BitShift by the width of the type shifts by nothing.

BitShift: 'If Y is negative, or is greater than or equal to the number of bits of T, then the result is whatever the
sign bit extension alone produces: -1 for a right shift on a negative X, where the fill is a sign bit of 1, and 0 in
every other case'.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 28]>
g (int32[2] x, int32[2] by) => (int32[2] y) {
    y = BitShift <direction = "LEFT"> (x, by)
}
"""
INPUTS = {"x": np.array([1, -1], np.int32), "by": np.array([32, -1], np.int32)}
RIGHT = np.array([0, 0], np.int32)
WITHIN = 0.0
"""It is exact."""


def given():
    from emx_onnx_cgen.onnx_backend import prepare

    return np.array(prepare(onnx.parser.parse_model(MODEL)).run(list(INPUTS.values()))[0])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

"""BitShift to the right by -1 is the least number.

BitShift: 'If Y is negative, or is greater than or equal to the number of bits of T, then the result is whatever the
sign bit extension alone produces'. It seems to be taken for a quotient by 0.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 28]>
g (int32[2] x, int32[2] z) => (int32[2] y) {
    y = BitShift <direction = "RIGHT"> (x, z)
}
"""
INPUTS = {"x": np.array([4, 4], np.int32), "z": np.array([-1, 1], np.int32)}
RIGHT = np.array([0, 2], np.int32)
WITHIN = 0.0
"""It is exact."""


def given():
    import openvino

    core = openvino.Core()
    model = core.read_model(onnx.parser.parse_model(MODEL).SerializeToString())
    compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return np.array(compiled(INPUTS)[0])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

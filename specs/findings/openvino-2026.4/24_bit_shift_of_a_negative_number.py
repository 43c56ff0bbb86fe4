"""BitShift of -1 to the right is 0.

BitShift: 'For a signed T the right shift is an arithmetic shift (sign-extending)'. It seems to be taken for a
quotient, which is rounded towards 0. Signed types are new in version 28, which the model names: they are taken.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 28]>
g (int32[2] x, int32[2] z) => (int32[2] y) {
    y = BitShift <direction = "RIGHT"> (x, z)
}
"""
INPUTS = {"x": np.array([-1, 4], np.int32), "z": np.array([1, 1], np.int32)}
RIGHT = np.array([-1, 2], np.int32)
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

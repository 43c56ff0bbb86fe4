"""BitShift of uint8 saturates.

BitShift: 'bits of binary representation move toward the left side', and 128 has only the first of eight.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (uint8[2] x, uint8[2] z) => (uint8[2] y) {
    y = BitShift <direction = "LEFT"> (x, z)
}
"""
INPUTS = {"x": np.array([1, 128], np.uint8), "z": np.array([1, 1], np.uint8)}
RIGHT = np.array([2, 0], np.uint8)
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

"""BitShift of a scalar has an axis.

BitShift: 'Bitwise shift operator performs element-wise operation'. The operand has no axis, nor has the number of bits.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (uint8 x, uint8 z) => (uint8 y) {
    y = BitShift <direction = "LEFT"> (x, z)
}
"""
INPUTS = {"x": np.array(5, np.uint8), "z": np.array(1, np.uint8)}
RIGHT = np.array(10, np.uint8)
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

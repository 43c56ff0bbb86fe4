"""BitShift of 1 to the left by 32 is the least number.

BitShift: 'bits shifted past the sign bit are discarded'. It seems to be taken for a product with a power of two,
which is out of range.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 28]>
g (int32[2] x, int32[2] z) => (int32[2] y) {
    y = BitShift <direction = "LEFT"> (x, z)
}
"""
INPUTS = {"x": np.array([1, 1], np.int32), "z": np.array([32, 1], np.int32)}
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

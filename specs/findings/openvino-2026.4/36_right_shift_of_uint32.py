"""BitShift to the right of a uint32 is that of an int32.

BitShift: 'For a signed T the right shift is an arithmetic shift'; this T has no sign. 2147483647 to the right by 0 is
2147483648: it seems to be computed in float.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 28]>
g (uint32[2] x, uint32[2] z) => (uint32[2] y) {
    y = BitShift <direction = "RIGHT"> (x, z)
}
"""
INPUTS = {"x": np.array([2147483648, 2147483647], np.uint32), "z": np.array([1, 0], np.uint32)}
RIGHT = np.array([1073741824, 2147483647], np.uint32)
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

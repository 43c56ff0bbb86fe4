"""Div of int8 is rounded where a size is open.

Div: 'For integer inputs, the result is computed using truncating division (rounding toward zero)'. Where all sizes
are numbers it is right; of uint8 the same is wrong.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (int8[n] x, int8[n] z) => (int8[n] y) {
    y = Div(x, z)
}
"""
INPUTS = {"x": np.array([7], np.int8), "z": np.array([2], np.int8)}
RIGHT = np.array([3], np.int8)
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

"""Div of int32 by a constant is computed in float.

Div: 'For integer inputs, the result is computed using truncating division (rounding toward zero)'. Above 2^24 float
has not all whole numbers. Div by what is no constant is computed so too, and a BitShift of uint32 to the right.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (int32[1] x) => (int32[1] y) {
    z = Constant <value_ints = [2]> ()
    w = Cast <to = 6> (z)
    y = Div(x, w)
}
"""
INPUTS = {"x": np.array([-764647581], np.int32)}
RIGHT = np.array([-382323790], np.int32)
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

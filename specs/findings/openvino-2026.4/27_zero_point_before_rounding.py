"""QuantizeLinear adds the zero point before it rounds.

QuantizeLinear: 'For `(x / y_scale)`, it rounds to the nearest even'. A half is rounded to 0, and the zero point makes
1 of that; one and a half is rounded to 2.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[1] x, float s, uint8 z) => (uint8[1] y) {
    y = QuantizeLinear(x, s, z)
}
"""
INPUTS = {"x": np.array([1], np.float32), "s": np.array(2, np.float32), "z": np.array(1, np.uint8)}
RIGHT = np.array([1], np.uint8)
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

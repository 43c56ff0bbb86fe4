"""Attention takes no notice of left_window_size.

Attention: 'A value of `0` allows the current position but no preceding position'. The second query sees the second
value alone. The attribute is new in version 25, which the model names: it is taken, and read as if the attribute were
not there.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 25]>
g (float[1,1,2,1] q, float[1,1,2,1] k, float[1,1,2,1] v) => (float[1,1,2,1] y) {
    y = Attention <left_window_size = 0> (q, k, v)
}
"""
INPUTS = {
    "q": np.zeros((1, 1, 2, 1), np.float32),
    "k": np.zeros((1, 1, 2, 1), np.float32),
    "v": np.array([1, 2], np.float32).reshape(1, 1, 2, 1),
}
RIGHT = np.array([1.5, 2], np.float32).reshape(1, 1, 2, 1)
WITHIN = 1e-6
"""Some units in the last place."""


def given():
    import openvino

    core = openvino.Core()
    model = core.read_model(onnx.parser.parse_model(MODEL).SerializeToString())
    compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return np.array(compiled(INPUTS)[0])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

"""Resize takes no notice of keep_aspect_ratio_policy.

Resize: 'the sizes are adjusted so that no extent of the output is larger than the specified size, while keeping the
original aspect ratio'. A row of two is twice as large in two rows of four.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 19]>
g (float[1,1,1,2] x) => (float[1,1,2,4] y) {
    s = Constant <value_ints = [2, 6]> ()
    y = Resize <mode = "nearest", axes = [2, 3], keep_aspect_ratio_policy = "not_larger"> (x, , , s)
}
"""
INPUTS = {"x": np.array([0, 1], np.float32).reshape(1, 1, 1, 2)}
RIGHT = np.array([[[[0, 0, 1, 1], [0, 0, 1, 1]]]], np.float32)
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

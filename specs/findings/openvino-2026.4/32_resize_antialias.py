"""Resize takes no notice of antialias.

Resize: 'Antialiasing is achieved by stretching the resampling filter by a factor max(1, 1 / scale), which means that
when downsampling, more input pixels contribute to an output pixel'. The first element gets a seventh of the third.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 19]>
g (float[1,1,1,4] x) => (float[1,1,1,2] y) {
    s = Constant <value_floats = [1.0, 1.0, 1.0, 0.5]> ()
    y = Resize <mode = "linear", antialias = 1> (x, , s)
}
"""
INPUTS = {"x": np.array([0, 0, 8, 0], np.float32).reshape(1, 1, 1, 4)}
RIGHT = np.array([[[[1, 3]]]], np.float32)
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

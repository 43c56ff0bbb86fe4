"""Resize takes no notice of exclude_outside.

Resize: 'If set to 1, the weight of sampling locations outside the tensor will be set to 0 and the weight will be
renormalized so that their sum is 1.0'. What is given is what comes without it.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 19]>
g (float[1,1,1,2] x) => (float[1,1,1,4] y) {
    s = Constant <value_floats = [1.0, 1.0, 1.0, 2.0]> ()
    y = Resize <mode = "cubic", exclude_outside = 1> (x, , s)
}
"""
INPUTS = {"x": np.array([0, 1], np.float32).reshape(1, 1, 1, 2)}
RIGHT = np.array([[[[-0.13636364, 0.22945206, 0.77054794, 1.13636364]]]], np.float32)
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

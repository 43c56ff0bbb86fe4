"""Expand of a scalar has an axis.

Expand: 'Broadcast the input tensor following the given shape and the broadcast rule'. A shape of no axes leaves a
scalar as it is.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float x) => (float y) {
    s = Constant <value = int64[0] {}> ()
    y = Expand(x, s)
}
"""
INPUTS = {"x": np.array(1, np.float32)}
RIGHT = np.array(1, np.float32)
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

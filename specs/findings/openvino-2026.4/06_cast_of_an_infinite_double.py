"""Cast of an infinite double to float is the greatest finite number.

A float has infinities, and the next float to infinity is that one.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (double[1] x) => (float[1] y) {
    y = Cast <to = 1> (x)
}
"""
INPUTS = {"x": np.array([np.inf])}
RIGHT = np.array([np.inf], np.float32)
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

"""Add of int64 is computed in int32.

Add: 'Performs element-wise binary addition'; no 2**40 is left of 2**40 + 1. Inputs and outputs are int64.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (int64[1] x, int64[1] z) => (int64[1] y) {
    y = Add(x, z)
}
"""
INPUTS = {"x": np.array([2**40]), "z": np.array([1])}
RIGHT = np.array([2**40 + 1])
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

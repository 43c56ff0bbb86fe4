"""Add of double is computed in float.

Add: 'Performs element-wise binary addition'; what is given has the type double, and the digits of a float.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (double[1] x, double[1] z) => (double[1] y) {
    y = Add(x, z)
}
"""
INPUTS = {"x": np.array([1.0]), "z": np.array([1e-12])}
RIGHT = np.array([1 + 1e-12])
WITHIN = 1e-15
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

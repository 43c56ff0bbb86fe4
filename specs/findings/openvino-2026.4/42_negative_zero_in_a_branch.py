"""Neg of 0 in a branch of an If is 0.

Neg: 'each element flipped sign, y = -x, is applied to the tensor elementwise'. Outside the If it is -0.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (bool p, float[2] x) => (float[2] y) {
    y = If (p) <then_branch = t () => (float[2] a) { a = Neg(x) },
                else_branch = e () => (float[2] b) { b = Identity(x) }>
}
"""
INPUTS = {"p": np.array(True), "x": np.array([0, 1], np.float32)}
RIGHT = np.array([-0.0, -1], np.float32)
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

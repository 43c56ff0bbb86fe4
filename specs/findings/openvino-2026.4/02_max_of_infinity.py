"""ReduceMax of -inf is the least finite number.

ReduceMax: 'along the provided axes'; -inf is the only value. MaxPool does the same. A row of a mask that is all -inf
is NaN so, in the body that ONNX gives of Attention.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[1] y) {
    y = ReduceMax(x)
}
"""
INPUTS = {"x": np.array([-np.inf, -np.inf], np.float32)}
RIGHT = np.array([-np.inf], np.float32)
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

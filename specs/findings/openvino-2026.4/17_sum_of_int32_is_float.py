"""ReduceSum of int32 is computed in float.

ReduceSum: 'elements along the provided axes'. The sum of one element is the element. Above 2^24 float has not all
whole numbers. ReduceMax and MatMul are computed so too.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (int32[1] x) => (int32[1] y) {
    y = ReduceSum(x)
}
"""
INPUTS = {"x": np.array([47830817], np.int32)}
RIGHT = np.array([47830817], np.int32)
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

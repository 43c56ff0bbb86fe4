"""A constant of bfloat16 in int32_data is the number that its bits are.

The proto of a tensor says of int32_data: '(b)float16 and float8 values MUST be converted bit-wise into an unsigned
integer representation before being written to the buffer'. The bits of 1 are 16256. In raw_data it is right, and so is
float16 in int32_data.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[1] x) => (float[1] y) {
    c = Constant <value = bfloat16[1] {16256}> ()
    z = Cast <to = 1> (c)
    y = Mul(x, z)
}
"""
INPUTS = {"x": np.array([1], np.float32)}
RIGHT = np.array([1], np.float32)
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

"""A Conv with a stride, a kernel of one and padding, behind an Abs, has one element too many.

Conv: 'Stride along each spatial axis.': of three elements and one of padding behind them each second one is taken,
which are two. The stride is moved before the Abs, and what is padded is then taken with a stride of 1. Without the Abs
it is right.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[1,1,3] x, float[1,1,1] w) => (float[1,1,2] y) {
    a = Abs(x)
    y = Conv <strides = [2], pads = [0, 1]> (a, w)
}
"""
INPUTS = {"x": np.array([[[1, 2, 3]]], np.float32), "w": np.array([[[2]]], np.float32)}
RIGHT = np.array([[[2, 6]]], np.float32)
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

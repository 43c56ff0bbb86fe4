"""LRN of size 2 sums the channel before.

LRN: 'max(0, c - floor((size - 1) / 2)) <= i <= min(C - 1, c + ceil((size - 1) / 2))', which are c and c + 1 here. That
of size 3 is right.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[1,2,1,1] x) => (float[1,2,1,1] y) {
    y = LRN <size = 2, alpha = 2.0, beta = 0.75, bias = 1.0> (x)
}
"""
INPUTS = {"x": np.ones((1, 2, 1, 1), np.float32)}
RIGHT = np.array([[[[3**-0.75]], [[2**-0.75]]]], np.float32)
WITHIN = 1e-5
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

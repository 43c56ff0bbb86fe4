"""A bias on a Conv of constants is added up from run to run.

Conv: 'Optional 1D bias to be added to the convolution'. The Conv is 0, and the bias 1 in each run. It seems that
the bias is added in place to what was folded.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[1] x) => (float[1,1,1] y) {
    c = Constant <value = float[1,1,1] {0}> ()
    y = Conv(c, c, x)
}
"""
INPUTS = {"x": np.array([1], np.float32)}
RIGHT = np.array([[[1]]], np.float32)
WITHIN = 0.0
"""It is exact."""


def given():
    import openvino

    core = openvino.Core()
    model = core.read_model(onnx.parser.parse_model(MODEL).SerializeToString())
    compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    compiled(INPUTS)
    return np.array(compiled(INPUTS)[0])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

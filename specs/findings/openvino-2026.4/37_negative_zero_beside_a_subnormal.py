"""A -0 in a constant is 0 where a subnormal number stands beside it.

Constant: 'This operator produces a constant tensor'. Where there is no subnormal number in it, -0 stays. What becomes
of the subnormal number is another question.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (int64[1] i) => (float[1] y) {
    c = Constant <value = float[2] {-0.0, 1e-42}> ()
    y = Gather(c, i)
}
"""
INPUTS = {"i": np.array([0], np.int64)}
RIGHT = np.array([-0.0], np.float32)
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

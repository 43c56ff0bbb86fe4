"""TopK of equal numbers gives the later one first.

TopK: 'Given two equivalent values, this operator uses the indices along the axis as a tiebreaker. That is, the
element with the lower index will appear first'.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[4] x, int64[1] k) => (int64[2] y) {
    v, y = TopK(x, k)
}
"""
INPUTS = {"x": np.zeros(4, np.float32), "k": np.array([2])}
RIGHT = np.array([0, 1])
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

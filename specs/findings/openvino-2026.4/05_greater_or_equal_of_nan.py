"""GreaterOrEqual of NaN and 1 is true.

GreaterOrEqual: 'Returns the tensor resulted from performing the `greater_equal` logical operation'. NaN is not equal
to 1 and not greater; it seems to be taken for not (x < z). Greater of what has a NaN is true too.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x, float[2] z) => (bool[2] y) {
    y = GreaterOrEqual(x, z)
}
"""
INPUTS = {"x": np.array([np.nan, 1], np.float32), "z": np.array([1, 1], np.float32)}
RIGHT = np.array([False, True])
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

"""Cast of 1.25 to float8e8m0 is 1.

Cast: 'Rounding mode for conversion to float8e8m0. It only applies to casting to float8e8m0 and is `up` by default'.
The next power of two above is 2.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 24]>
g (float[2] x) => (float[2] y) {
    a = Cast <to = 24> (x)
    y = Cast <to = 1> (a)
}
"""
INPUTS = {"x": np.array([1.25, 2], np.float32)}
RIGHT = np.array([2, 2], np.float32)
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

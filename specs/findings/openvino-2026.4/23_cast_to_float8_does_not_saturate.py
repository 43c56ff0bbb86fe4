"""Cast of 1000 to float8 is NaN.

Cast: 'The parameter defines how the conversion behaves if an input value is out of range of the destination type'. It
is true by default, and the greatest number of the type is wanted.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 19]>
g (float[2] x) => (float[2] y) {
    a = Cast <to = 17> (x)
    y = Cast <to = 1> (a)
}
"""
INPUTS = {"x": np.array([1000, 1], np.float32)}
RIGHT = np.array([448, 1], np.float32)
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

"""Cast of the constant -1 to uint32 is 2147483647.

Cast: 'returns an output tensor of the same size in the converted type'. Its bits are those of 2^32 - 1, and as an
input -1 gives that. An Identity of a constant of uint32 gives such a number as a negative one.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 18]>
g (uint32[1] z) => (uint32[1] y) {
    a = Constant <value = int32[1] {-1}> ()
    x = Cast <to = 12> (a)
    y = BitwiseXor(x, z)
}
"""
INPUTS = {"z": np.array([0], np.uint32)}
RIGHT = np.array([4294967295], np.uint32)
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

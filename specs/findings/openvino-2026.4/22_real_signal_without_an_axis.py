"""DFT to a real signal leaves out the last axis.

DFT: 'When `onesided=1` and `inverse=1` (inverse DFT), only complex input is supported and a full real signal is
returned (IRFFT)'. Output: the last axis of a real signal has one element, as that of a real input.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 20]>
g (float[1,2,2] x) => (float[1,2,1] y) {
    y = DFT <inverse = 1, onesided = 1> (x)
}
"""
INPUTS = {"x": np.array([[[1, 0], [1, 0]]], np.float32)}
RIGHT = np.array([[[1], [0]]], np.float32)
WITHIN = 1e-6
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

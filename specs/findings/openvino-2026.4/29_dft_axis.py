"""DFT takes no notice of axis.

DFT: 'Default is `-2` (last signal axis)', which has two elements here. The transform is made along axis 1, the
default of version 17, whatever is given as axis; that has one.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 20]>
g (float[1,1,2,1] x) => (float[1,1,2,2] y) {
    y = DFT(x)
}
"""
INPUTS = {"x": np.array([1, 2], np.float32).reshape(1, 1, 2, 1)}
RIGHT = np.array([[[[3, 0], [-1, 0]]]], np.float32)
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

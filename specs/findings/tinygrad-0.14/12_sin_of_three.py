"""Sin of 3 is off by 9 units in the last place.

Sin: 'Calculates the sine of the given input tensor, element-wise'. It may be off by 4 (M9.2). Cos
loses as much near its zeros.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[1] x) => (float[1] y) {
    y = Sin(x)
}
"""
INPUTS = {"x": np.array([3], np.float32)}
RIGHT = np.array([0.14112], np.float32)
WITHIN = 5e-7
"""Some units in the last place."""


def given():
    from tinygrad import Tensor
    from tinygrad.nn.onnx import OnnxRunner

    model = onnx.parser.parse_model(MODEL).SerializeToString()
    return OnnxRunner(Tensor(model))({name: Tensor(value) for name, value in INPUTS.items()})["y"].numpy()


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

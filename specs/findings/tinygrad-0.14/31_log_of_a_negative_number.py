"""Log of -1e-40 is -inf.

Log: 'Calculates the natural log of the given input tensor, element-wise'. There is none of a negative number. It is
taken for -0, for its reciprocal is -inf; subnormal numbers above 0 are not.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[2] y) {
    y = Log(x)
}
"""
INPUTS = {"x": np.array([-1e-40, 1e-40], np.float32)}
RIGHT = np.array([np.nan, -92.103409], np.float32)
WITHIN = 1e-6
"""Some units in the last place."""


def given():
    from tinygrad import Tensor
    from tinygrad.nn.onnx import OnnxRunner

    model = onnx.parser.parse_model(MODEL).SerializeToString()
    return OnnxRunner(Tensor(model))({name: Tensor(value) for name, value in INPUTS.items()})["y"].numpy()


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

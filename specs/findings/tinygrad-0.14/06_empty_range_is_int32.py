"""Range of nothing is of int32.

Range: 'A 1-D tensor with same type as the inputs containing generated range of values'.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (int64 a, int64 b, int64 d) => (int64[0] y) {
    y = Range(a, b, d)
}
"""
INPUTS = {"a": np.array(0), "b": np.array(0), "d": np.array(1)}
RIGHT = np.zeros(0, np.int64)
WITHIN = 0.0
"""It is exact."""


def given():
    from tinygrad import Tensor
    from tinygrad.nn.onnx import OnnxRunner

    model = onnx.parser.parse_model(MODEL).SerializeToString()
    return OnnxRunner(Tensor(model))({name: Tensor(value) for name, value in INPUTS.items()})["y"].numpy()


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

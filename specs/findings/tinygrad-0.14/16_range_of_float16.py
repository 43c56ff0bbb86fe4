"""Range of float16 is of float32.

Range: 'A 1-D tensor with same type as the inputs containing generated range of values'. That of bfloat16 is of float32
too.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 27]>
g (float16 a, float16 b, float16 c) => (float16[2] y) {
    y = Range(a, b, c)
}
"""
INPUTS = {"a": np.array(1, np.float16), "b": np.array(5, np.float16), "c": np.array(2, np.float16)}
RIGHT = np.array([1, 3], np.float16)
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

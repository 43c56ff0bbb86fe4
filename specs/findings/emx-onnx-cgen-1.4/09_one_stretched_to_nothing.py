"""Add of one element and none has one.

Add: 'This operator supports **multidirectional (i.e., Numpy-style) broadcasting**': a size of 1 becomes that of the
other, here 0.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[1] a, float[0] b) => (float[0] y) {
    y = Add(a, b)
}
"""
INPUTS = {"a": np.ones(1, np.float32), "b": np.ones(0, np.float32)}
RIGHT = np.ones(0, np.float32)
WITHIN = 0.0
"""It is exact."""


def given():
    from emx_onnx_cgen.onnx_backend import prepare

    return np.array(prepare(onnx.parser.parse_model(MODEL)).run(list(INPUTS.values()))[0])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

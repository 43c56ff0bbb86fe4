"""QuantizeLinear of a large number is the least one.

QuantizeLinear: 'y = saturate((x / y_scale) + y_zero_point)'; 127.
"""

import numpy as np
import onnx.parser
from onnx.reference import ReferenceEvaluator

MODEL = """
<ir_version: 8, opset_import: ["" : 22]>
g (float[2] x, float s, int8 z) => (int8[2] y) {
    y = QuantizeLinear(x, s, z)
}
"""
INPUTS = {
    "x": np.array([10000000000.0, 3000000000.0], np.float32),
    "s": np.array(1.0, np.float32),
    "z": np.array(0, np.int8),
}
RIGHT = np.array([127, 127], np.int8)
WITHIN = 0.0
"""It is exact."""


def given():
    evaluator = ReferenceEvaluator(onnx.parser.parse_model(MODEL))
    with np.errstate(all="ignore"):
        return np.asarray(evaluator.run(None, INPUTS)[0])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

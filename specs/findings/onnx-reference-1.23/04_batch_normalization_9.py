"""BatchNormalization-9 mixes the batch's own mean in.

BatchNormalization-9: 'Output case #2: Y (test mode)', by the given mean and variance; 0 and 1 here, so y is
x.
"""

import numpy as np
import onnx.parser
from onnx.reference import ReferenceEvaluator

MODEL = """
<ir_version: 8, opset_import: ["" : 9]>
g (float[2,1,1] x, float[1] s, float[1] b, float[1] m, float[1] v) => (float[2,1,1] y) {
    y = BatchNormalization(x, s, b, m, v)
}
"""
INPUTS = {
    "x": np.array([[[1.0]], [[3.0]]], np.float32),
    "s": np.array([1.0], np.float32),
    "b": np.array([0.0], np.float32),
    "m": np.array([0.0], np.float32),
    "v": np.array([1.0], np.float32),
}
RIGHT = np.array([[[0.999995]], [[2.999985]]], np.float32)
WITHIN = 0.001
"""The relative error that may be left, which no rounding explains."""


def given():
    evaluator = ReferenceEvaluator(onnx.parser.parse_model(MODEL))
    with np.errstate(all="ignore"):
        return np.asarray(evaluator.run(None, INPUTS)[0])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

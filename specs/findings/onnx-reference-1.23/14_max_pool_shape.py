"""MaxPool with a pad at the end gives too few elements.

MaxPool: 'output_spatial_shape[i] = floor((input_spatial_shape[i] + pad_shape[i] - dilation[i] *
(kernel_shape[i] - 1) - 1) / strides_spatial_shape[i] + 1)', 2 here.
"""

import numpy as np
import onnx.parser
from onnx.reference import ReferenceEvaluator

MODEL = """
<ir_version: 8, opset_import: ["" : 22]>
g (float[1,1,2] x) => (float[1,1,n] y) {
    y = MaxPool <kernel_shape = [2], pads = [0, 1], strides = [1]> (x)
}
"""
INPUTS = {"x": np.array([[[1.0, 2.0]]], np.float32)}
RIGHT = np.array([[[2.0, 2.0]]], np.float32)
WITHIN = 0.0
"""It is exact."""


def given():
    evaluator = ReferenceEvaluator(onnx.parser.parse_model(MODEL))
    with np.errstate(all="ignore"):
        return np.asarray(evaluator.run(None, INPUTS)[0])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

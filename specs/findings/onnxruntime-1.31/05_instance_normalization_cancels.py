"""InstanceNormalization of four numbers near 100000 is wrong in the third digit.

InstanceNormalization: 'y = scale * (x - mean) / sqrt(variance + epsilon) + B'; mean and variance are exact in
float32 here (100001.5 and 1.25). The result is not even symmetric.
"""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = """
<ir_version: 8, opset_import: ["" : 22]>
g (float[1,1,4] x, float[1] s, float[1] b) => (float[1,1,4] y) {
    y = InstanceNormalization(x, s, b)
}
"""
INPUTS = {
    "x": np.array([[[100000.0, 100001.0, 100002.0, 100003.0]]], np.float32),
    "s": np.array([1.0], np.float32),
    "b": np.array([0.0], np.float32),
}
RIGHT = np.array([[[-1.3416354, -0.44721183, 0.44721183, 1.3416354]]], np.float32)
WITHIN = 0.0001
"""The relative error that may be left, which no rounding explains."""


def given():
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    model = onnx.parser.parse_model(MODEL).SerializeToString()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, INPUTS)[0])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

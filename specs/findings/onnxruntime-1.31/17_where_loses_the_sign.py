"""Where makes 0 of -0.

Where: 'Return elements, either from X or Y, depending on condition'; the element is -0. From Y it comes as it
is.
"""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = """
<ir_version: 8, opset_import: ["" : 22]>
g (bool[1] c, float[1] x, float[1] z) => (float[1] y) {
    y = Where(c, x, z)
}
"""
INPUTS = {"c": np.array([True], np.bool_), "x": np.array([-0.0], np.float32), "z": np.array([1.0], np.float32)}
RIGHT = np.array([-0.0], np.float32)
WITHIN = 0.0
"""It is exact."""


def given():
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    model = onnx.parser.parse_model(MODEL).SerializeToString()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, INPUTS)[0])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

"""The inverse DFT in double is divided by a float32.

DFT: 'inverse: whether to perform the inverse discrete Fourier Transform', tensor(double) to tensor(double): a
fifth of a sum, of 5 here. It multiplies by the float32 next to 0.2.
"""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = """
<ir_version: 8, opset_import: ["" : 22]>
g (double[1,5,2] x) => (double[1,5,2] y) {
    y = DFT <inverse = 1> (x)
}
"""
INPUTS = {"x": np.array([[[5.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]], np.float64)}
RIGHT = np.array([[[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]], np.float64)
WITHIN = 1e-12
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

"""An LSTM of NaN is a number where it has a bias, be that 0.

LSTM: 'it = f(Xt*(Wi^T) + Ht-1*(Ri^T) + Pi (.) Ct-1 + Wbi + Rbi)', which is NaN of NaN, and so are the cell and the
result. Without the bias they are.
"""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = """
<ir_version: 8, opset_import: ["" : 22]>
g (float[1, 1, 1] x) => (float[1, 1, 1, 1] y)
<float[1, 4, 1] w = {1.0, 1.0, 1.0, 1.0}, float[1, 4, 1] r = {0.0, 0.0, 0.0, 0.0},
 float[1, 8] b = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0}>
{
    y = LSTM <hidden_size: int = 1> (x, w, r, b)
}
"""
INPUTS = {"x": np.array([[[np.nan]]], np.float32)}
RIGHT = np.array([[[[np.nan]]]], np.float32)
WITHIN = 0


def given():
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    model = onnx.parser.parse_model(MODEL).SerializeToString()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, INPUTS)[0])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

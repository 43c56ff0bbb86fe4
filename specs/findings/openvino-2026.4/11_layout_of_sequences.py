"""GRU with layout 1 goes on from one sequence to the next.

GRU: 'If 1, the following shapes are expected: X.shape = [batch_size, seq_length, input_size]'. The two sequences of
one step are alike, and so are their states. What is given for the second goes on with the first. LSTM and RNN do the
same.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 14]>
g (float[2,1,1] x, float[1,3,1] w, float[1,3,1] r) => (float[2,1,1,1] y) {
    y, h = GRU <layout = 1, hidden_size = 1> (x, w, r)
}
"""
INPUTS = {
    "x": np.array([[[1]], [[1]]], np.float32),
    "w": np.ones((1, 3, 1), np.float32),
    "r": np.ones((1, 3, 1), np.float32),
}
RIGHT = np.array([[[[0.2048242]]], [[[0.2048242]]]], np.float32)
WITHIN = 1e-5
"""Some units in the last place."""


def given():
    import openvino

    core = openvino.Core()
    model = core.read_model(onnx.parser.parse_model(MODEL).SerializeToString())
    compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return np.array(compiled(INPUTS)[0])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

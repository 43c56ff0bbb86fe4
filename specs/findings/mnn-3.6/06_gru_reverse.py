"""GRU reversed goes forward.

GRU: 'Specify if the RNN is forward, reverse, or bidirectional'. Reversed, the second step is made first, and the
first keeps half of its state. What is given is the same as without the attribute. LSTM and RNN do the same.
"""

import tempfile

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 14]>
g (float[2,1,1] x, float[1,3,1] w, float[1,3,1] r) => (float[2,1,1,1] y) {
    y, h = GRU <direction = "reverse", hidden_size = 1> (x, w, r)
}
"""
INPUTS = {
    "x": np.array([[[0]], [[1]]], np.float32),
    "w": np.ones((1, 3, 1), np.float32),
    "r": np.zeros((1, 3, 1), np.float32),
}
RIGHT = np.array([[[[0.1024121]]], [[[0.2048242]]]], np.float32)
WITHIN = 1e-5
"""Some units in the last place."""


def given():
    import _tools  # mnnconvert would also run pip and report over the network
    import MNN.expr
    import MNN.nn

    with tempfile.TemporaryDirectory() as folder:
        source, made = f"{folder}/model.onnx", f"{folder}/model.mnn"
        onnx.save(onnx.parser.parse_model(MODEL), source)
        _tools.mnnconvert(["MNNConvert", "-f", "ONNX", "--modelFile", source, "--MNNModel", made, "--bizCode", "x"])
        net = MNN.nn.load_module_from_file(made, list(INPUTS), ["y"], backend=MNN.expr.Backend.CPU)
    given = [MNN.expr.const(v, list(v.shape), MNN.expr.NCHW, MNN.expr.float) for v in INPUTS.values()]
    return np.array(net.forward(given)[0].read())


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

"""Y_h of a GRU of two directions is 0 for the second.

GRU: 'The last output value of the hidden. It has shape `[num_directions, batch_size, hidden_size]`'. Of one step both
directions give the same.
"""

import tempfile

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 14]>
g (float[1,1,1] x, float[2,3,1] w, float[2,3,1] r) => (float[2,1,1] h) {
    y, h = GRU <direction = "bidirectional", hidden_size = 1> (x, w, r)
}
"""
INPUTS = {
    "x": np.ones((1, 1, 1), np.float32),
    "w": np.ones((2, 3, 1), np.float32),
    "r": np.ones((2, 3, 1), np.float32),
}
RIGHT = np.array([[[0.2048242]], [[0.2048242]]], np.float32)
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
        net = MNN.nn.load_module_from_file(made, list(INPUTS), ["h"], backend=MNN.expr.Backend.CPU)
    kinds = {"f": MNN.expr.float, "i": MNN.expr.int, "u": MNN.expr.uint8}
    given = [
        MNN.expr.const(
            v.astype({"f": "f4", "i": "i4", "u": "u1"}[v.dtype.kind]), list(v.shape), MNN.expr.NCHW, kinds[v.dtype.kind]
        )
        for v in INPUTS.values()
    ]
    return np.array(net.forward(given)[0].read()).astype(RIGHT.dtype)


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

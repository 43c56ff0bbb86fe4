"""Det of a matrix whose rows are swapped has the wrong sign.

Det: 'calculates determinant of a square matrix or batches of square matrices'; that of [[0, 1], [1, 0]] is 0 * 0 - 1
* 1.
"""

import tempfile

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2,2] x) => (float y) {
    y = Det(x)
}
"""
INPUTS = {"x": np.array([[0, 1], [1, 0]], np.float32)}
RIGHT = np.array(-1, np.float32)
WITHIN = 1e-6
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

"""MaxPool with ceil_mode has windows behind the end.

MaxPool: 'Sliding windows that would start in the right padded region are ignored'. The input has two rows and
columns, and a second window of one element would start behind them.
"""

import tempfile

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 22]>
g (float[1,1,2,2] x) => (float[1,1,1,1] y) {
    y = MaxPool <kernel_shape = [1, 1], strides = [2, 2], ceil_mode = 1> (x)
}
"""
INPUTS = {"x": np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)}
RIGHT = np.array([[[[0]]]], np.float32)
WITHIN = 0.0
"""It is exact."""


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

"""ArgMax takes no notice of select_last_index.

ArgMax: 'If select_last_index is True (default False), the index of the last occurrence of the max is selected if the
max appears more than once in the input'.
"""

import tempfile

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[3] x) => (int64[1] y) {
    y = ArgMax <select_last_index = 1> (x)
}
"""
INPUTS = {"x": np.array([1, 1, 0], np.float32)}
RIGHT = np.array([1])
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
    return np.array(net.forward(given)[0].read()).astype(np.int64)


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

"""Resize takes no notice of antialias.

Resize: 'If set to 1, "linear" and "cubic" interpolation modes will use an antialiasing filter when downscaling'. The
filter is four elements wide then.
"""

import tempfile

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 19]>
g (float[1,1,1,4] x) => (float[1,1,1,2] y) {
    s = Constant <value_floats = [1.0, 1.0, 1.0, 0.5]> ()
    y = Resize <mode = "linear", antialias = 1> (x, "", s)
}
"""
INPUTS = {"x": np.array([0, 0, 4, 0], np.float32).reshape(1, 1, 1, 4)}
RIGHT = np.array([0.5, 1.5], np.float32).reshape(1, 1, 1, 2)
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

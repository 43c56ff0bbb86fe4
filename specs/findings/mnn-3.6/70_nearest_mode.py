"""Resize takes no notice of the nearest_mode ceil.

Resize: 'Four modes: "round_prefer_floor" (default, as known as round half down), "round_prefer_ceil" (as known as
round half up), "floor", "ceil"'. Its converter says that it takes round_prefer_floor instead, for round_prefer_ceil
too.
"""

import tempfile

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 19]>
g (float[1,1,1,2] x) => (float[1,1,1,4] y) {
    s = Constant <value_floats = [1.0, 1.0, 1.0, 2.0]> ()
    y = Resize <mode = "nearest", nearest_mode = "ceil"> (x, "", s)
}
"""
INPUTS = {"x": np.array([0, 1], np.float32).reshape(1, 1, 1, 2)}
RIGHT = np.array([0, 1, 1, 1], np.float32).reshape(1, 1, 1, 4)
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

"""Pad by the edge, along three axes of five at once, gives numbers that are nowhere.

Pad: '`edge` - pads with the edge values of array'. Along one axis it is right.
"""

import tempfile

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 18]>
g (float[1,1,1,1,2] x) => (float[2,2,1,2,2] y) {
    p = Constant <value_ints = [1, 1, 0, 1, 0, 0, 0, 0, 0, 0]> ()
    y = Pad <mode = "edge"> (x, p)
}
"""
INPUTS = {"x": np.array([3, 4], np.float32).reshape(1, 1, 1, 1, 2)}
RIGHT = np.broadcast_to(INPUTS["x"], (2, 2, 1, 2, 2))
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

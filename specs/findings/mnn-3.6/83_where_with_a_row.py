"""Where gives what stood in memory for the second row of a row.

Where: 'This operator supports **multidirectional (i.e., Numpy-style) broadcasting**'. A row in place of the other
operand is broadcast.
"""

import tempfile

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (bool[2,2] c, float[2,2] x, float[2] z) => (float[2,2] y) {
    y = Where(c, x, z)
}
"""
INPUTS = {"c": np.zeros((2, 2), bool), "x": np.ones((2, 2), np.float32), "z": np.array([5, 6], np.float32)}
RIGHT = np.array([[5, 6], [5, 6]], np.float32)
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
    kinds = {"b": MNN.expr.int, "f": MNN.expr.float, "i": MNN.expr.int, "u": MNN.expr.uint8}
    given = [
        MNN.expr.const(
            v.astype({"b": "i4", "f": "f4", "i": "i4", "u": "u1"}[v.dtype.kind]),
            list(v.shape),
            MNN.expr.NCHW,
            kinds[v.dtype.kind],
        )
        for v in INPUTS.values()
    ]
    return np.array(net.forward(given)[0].read()).astype(RIGHT.dtype)


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

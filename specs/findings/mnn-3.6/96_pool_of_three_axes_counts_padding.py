"""AveragePool of three axes counts its padding.

AveragePool: 'Whether include pad pixels when calculating values for the edges', which is not asked for. Of two axes it
is right.
"""

import tempfile

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[1,1,1,1,1] x) => (float[1,1,1,1,2] y) {
    y = AveragePool <kernel_shape = [1, 1, 2], pads = [0, 0, 1, 0, 0, 1], strides = [1, 1, 1]> (x)
}
"""
INPUTS = {"x": np.ones((1, 1, 1, 1, 1), np.float32)}
RIGHT = np.ones((1, 1, 1, 1, 2), np.float32)
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

"""The square root of 2, divided by itself, is less than 1.

Div: 'Performs element-wise binary division (with Numpy-style broadcasting support)'; a number divided by itself is 1.
What is divided by a square root is multiplied by its reciprocal. Where it is no square root it is right.
"""

import tempfile

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[2] y) {
    s = Sqrt(x)
    y = Div(s, s)
}
"""
INPUTS = {"x": np.array([2, 3], np.float32)}
RIGHT = np.ones(2, np.float32)
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

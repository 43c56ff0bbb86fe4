"""Not of an Equal of int8 gives what stood in memory.

Equal: 'Returns the tensor resulted from performing the `equal` logical operation elementwise'. Equal alone has no
result, and a line says that its type is not supported.
"""

import tempfile

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 19]>
g (float[1] x) => (bool[8] y) {
    c = Constant <value = int8[8] {1, 2, 3, 4, 5, 6, 7, 8}> ()
    d = Constant <value = int8[8] {1, 0, 3, 0, 5, 0, 7, 0}> ()
    e = Equal(c, d)
    y = Not(e)
}
"""
INPUTS = {"x": np.array([1], np.float32)}
RIGHT = np.array(4 * [False, True])
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

"""Conv of five by five is off by 40 units in the last place.

Conv: 'The convolution operator consumes an input tensor and a filter, and computes the output'. Everything is 1, and
sums of whole numbers are exact in any order. Of three by three and 16 channels it is off where elements nearby are
much larger.
"""

import tempfile

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[1,4,8,8] x) => (float[1,4,8,8] y) {
    s = Constant <value_ints = [4, 4, 5, 5]> ()
    w = ConstantOfShape <value = float[1] {1}> (s)
    y = Conv <kernel_shape = [5, 5], pads = [2, 2, 2, 2], strides = [1, 1]> (x, w)
}
"""
INPUTS = {"x": np.ones((1, 4, 8, 8), np.float32)}
RIGHT = np.broadcast_to(4.0 * np.outer(*2 * [[3, 4, 5, 5, 5, 5, 4, 3]]), (1, 4, 8, 8)).astype(np.float32)
WITHIN = 1e-6
"""Some units in the last place, and it is exact in any order."""


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

"""Exp of NaN is near 0, and Exp of 100 is finite.

Exp: 'Calculates the exponential of the given input tensor, element-wise'; that of no number is no number, and that of
100 is no float. Tanh and Sigmoid of NaN are 1. Exp of -inf is near 0 too, and with it Softmax.
"""

import tempfile

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[2] y) {
    y = Exp(x)
}
"""
INPUTS = {"x": np.array([np.nan, 100], np.float32)}
RIGHT = np.array([np.nan, np.inf], np.float32)
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
    given = [MNN.expr.const(v, list(v.shape), MNN.expr.NCHW, MNN.expr.float) for v in INPUTS.values()]
    return np.array(net.forward(given)[0].read())


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

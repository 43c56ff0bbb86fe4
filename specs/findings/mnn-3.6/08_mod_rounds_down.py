"""Mod with fmod = 1 rounds the quotient down.

Mod: 'Whether the operator should use floor (0) or truncation (1) to calculate the quotient'. With fmod = 1 the result
has the sign of the dividend; what is given is what fmod = 0 is.
With fmod = 0, of floats since version 28, it truncates.
"""

import tempfile

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x, float[2] z) => (float[2] y) {
    y = Mod <fmod = 1> (x, z)
}
"""
INPUTS = {"x": np.array([4, -4], np.float32), "z": np.array([3, 3], np.float32)}
RIGHT = np.array([1, -1], np.float32)
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
    return np.array(net.forward(given)[0].read())


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

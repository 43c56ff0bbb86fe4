"""Resize takes no notice of cubic_coeff_a.

Resize: 'Two common choice are -0.5 (in some cases of TensorFlow) and -0.75 (in PyTorch)'. What is given is the curve
with the default, -0.75.
"""

import tempfile

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 19]>
g (float[1,1,1,6] x) => (float[1,1,1,3] y) {
    s = Constant <value_floats = [1.0, 1.0, 1.0, 0.5]> ()
    y = Resize <mode = "cubic", cubic_coeff_a = -0.5> (x, "", s)
}
"""
INPUTS = {"x": np.array([0, 0, 4, 0, 0, 0], np.float32).reshape(1, 1, 1, 6)}
RIGHT = np.array([-0.25, 2.25, 0], np.float32).reshape(1, 1, 1, 3)
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

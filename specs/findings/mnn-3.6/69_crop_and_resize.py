"""Resize by tf_crop_and_resize takes no notice of the region.

Resize: 'It only takes effect when coordinate_transformation_mode is "tf_crop_and_resize"'. The region is the first
half. Its converter says that it does not support it, and goes on.
"""

import tempfile

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 19]>
g (float[1,1,1,4] x, float[8] r, int64[4] s) => (float[1,1,1,2] y) {
    y = Resize <mode = "linear", coordinate_transformation_mode = "tf_crop_and_resize"> (x, r, "", s)
}
"""
INPUTS = {
    "x": np.array([1, 2, 3, 4], np.float32).reshape(1, 1, 1, 4),
    "r": np.array([0, 0, 0, 0, 1, 1, 1, 0.5], np.float32),
    "s": np.array([1, 1, 1, 2]),
}
RIGHT = np.array([1, 2.5], np.float32).reshape(1, 1, 1, 2)
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

"""A Conv whose bias comes from an If ends the process with SIGSEGV.

Conv: 'Optional 1D bias to be added to the convolution', which may be computed. Of a bias that is an input it is said
that constants alone are taken.
"""

import subprocess
import sys
import tempfile

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (bool p, float[1,3,2] x) => (float[1,3,2] y) {
    w = Constant <value = float[3,1,1] {1, 2, 3}> ()
    b = If (p) <then_branch = t () => (float[3] u) { u = Constant <value_floats = [1.0, 2.0, 3.0]> () },
                else_branch = e () => (float[3] v) { v = Constant <value_floats = [1.0, 2.0, 3.0]> () }>
    y = Conv <group = 3> (x, w, b)
}
"""
INPUTS = {"p": np.array(True), "x": np.ones((1, 3, 2), np.float32)}
RIGHT = np.array([[[2, 2], [4, 4], [6, 6]]], np.float32)
WITHIN = 0.0
"""It is exact."""


def run():
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


def given():
    """Nothing, if the process ended."""
    done = subprocess.run([sys.executable, __file__, "run"], capture_output=True, text=True, check=False)
    last = done.stdout.split()[-1:] if done.returncode == 0 else []
    return np.array([float(v) for v in last], RIGHT.dtype).reshape(RIGHT.shape if last else (0,))


if __name__ == "__main__":
    if sys.argv[1:] == ["run"]:
        print(run().item())
    else:
        print("given", given().tolist())
        print("right", RIGHT.tolist())

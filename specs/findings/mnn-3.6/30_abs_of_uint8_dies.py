"""Abs of uint8 ends the process with SIGSEGV.

Abs: 'y = abs(x), is applied to the tensor elementwise'. Clip, Div, Min, Mul, Neg and Sub of uint8 or
int8 do the same. Nothing lets an operator end the program that runs the model.
"""

import subprocess
import sys
import tempfile

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (uint8[1] x) => (uint8[1] y) {
    y = Abs(x)
}
"""
INPUTS = {"x": np.array([1], np.uint8)}
RIGHT = np.array([1], np.uint8)
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

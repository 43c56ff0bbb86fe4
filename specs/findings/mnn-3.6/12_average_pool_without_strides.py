"""AveragePool without strides ends the process with SIGFPE.

AveragePool: 'If not present, the stride defaults to 1 along each spatial axis'. MaxPool and LpPool do the same.
"""

import subprocess
import sys
import tempfile

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[1,1,2,2] x) => (float[1,1,1,1] y) {
    y = AveragePool <kernel_shape = [2, 2]> (x)
}
"""
INPUTS = {"x": np.ones((1, 1, 2, 2), np.float32)}
RIGHT = np.array([[[[1]]]], np.float32)
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
    given = [MNN.expr.const(v, list(v.shape), MNN.expr.NCHW, MNN.expr.float) for v in INPUTS.values()]
    return np.array(net.forward(given)[0].read())


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

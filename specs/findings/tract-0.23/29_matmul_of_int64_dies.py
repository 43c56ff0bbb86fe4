"""MatMul of int64 ends the process with SIGABRT.

MatMul: 'Matrix product that behaves like'. Whole numbers of 64 bits are among its types; of int32 it is right.
"""

import subprocess
import sys
import tempfile

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 13]>
g (int64[1,1] x, int64[1,1] z) => (int64[1,1] y) {
    y = MatMul(x, z)
}
"""
INPUTS = {"x": np.array([[2]]), "z": np.array([[3]])}
RIGHT = np.array([[6]])
WITHIN = 0.0
"""It is exact."""


def run():
    import tract

    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.onnx"
        onnx.save(onnx.parser.parse_model(MODEL), path)
        runnable = tract.onnx().load(path).into_model().into_runnable()
    return runnable.run(list(INPUTS.values()))[0].to_numpy()


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

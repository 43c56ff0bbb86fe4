"""Pad by -1 ends the process with SIGABRT.

Pad: 'Tensor of integers indicating the number of padding elements to add or remove (if negative) at the beginning and
end of each axis'.
"""

import subprocess
import sys
import tempfile

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[1] y) {
    p = Constant <value_ints = [0, -1]> ()
    y = Pad(x, p)
}
"""
INPUTS = {"x": np.array([1, 2], np.float32)}
RIGHT = np.array([1], np.float32)
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

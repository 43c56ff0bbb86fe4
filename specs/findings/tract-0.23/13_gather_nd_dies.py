"""GatherND of the index -1 ends the process with SIGABRT.

GatherND: 'All index values are expected to be within bounds [-s, s-1] along axis of size s'. The index -1 is the last
element.
"""

import subprocess
import sys
import tempfile

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x, int64[1,1] i) => (float[1] y) {
    y = GatherND(x, i)
}
"""
INPUTS = {"x": np.array([2, 3], np.float32), "i": np.array([[-1]])}
RIGHT = np.array([3], np.float32)
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

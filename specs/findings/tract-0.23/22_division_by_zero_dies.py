"""Div of int32 by 0 ends the process with SIGABRT.

Div: 'For integer inputs, the result is computed using truncating division (rounding toward zero)'. What comes of 0 is
not said; 0 is what Assay's definition has. Nothing lets an operator end the program that runs the model.
"""

import subprocess
import sys
import tempfile

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (int32[1] x, int32[1] z) => (int32[1] y) {
    y = Div(x, z)
}
"""
INPUTS = {"x": np.array([6], np.int32), "z": np.array([0], np.int32)}
RIGHT = np.array([0], np.int32)
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

"""Mod of a float by 0.5 ends the process with SIGFPE.

Mod: 'If `fmod` is `0`, the output is calculated as `A - floor(A / B) * B`'. As a whole number 0.5 is 0. Nothing lets
an operator end the program that runs the model. A divisor of 0 does the same.
"""

import subprocess
import sys

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[1] x, float[1] z) => (float[1] y) {
    y = Mod(x, z)
}
"""
INPUTS = {"x": np.array([1.25], np.float32), "z": np.array([0.5], np.float32)}
RIGHT = np.array([0.25], np.float32)
WITHIN = 0.0
"""It is exact."""


def run():
    import cv2

    model = onnx.parser.parse_model(MODEL).SerializeToString()
    net = cv2.dnn.readNetFromONNX(np.frombuffer(model, np.uint8))
    for name, value in INPUTS.items():
        net.setInput(value, name)
    return net.forward()


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

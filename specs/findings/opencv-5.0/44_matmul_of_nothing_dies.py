"""MatMul of no columns and no rows ends the process with SIGFPE.

MatMul: 'Matrix product that behaves like' that of NumPy: a sum of no products is 0. Nothing lets an operator end the
program that runs the model.
"""

import subprocess
import sys

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[1,0] x, float[0,1] z) => (float[1,1] y) {
    y = MatMul(x, z)
}
"""
INPUTS = {"x": np.zeros((1, 0), np.float32), "z": np.zeros((0, 1), np.float32)}
RIGHT = np.zeros((1, 1), np.float32)
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

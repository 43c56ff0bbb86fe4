"""Div of the least int32 by -1 ends the process with SIGFPE.

Div-14: 'For integer inputs, the result is computed using truncating division'. The quotient is no int32, and what
comes of that is not said; -2147483648, by wrapping, is what Neg and Mul give. A division by 0 ends it too. Nothing
lets an operator end the program that runs the model.
"""

import subprocess
import sys

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (int32[1] x, int32[1] z) => (int32[1] y) {
    y = Div(x, z)
}
"""
INPUTS = {"x": np.array([-2147483648], np.int32), "z": np.array([-1], np.int32)}
RIGHT = np.array([-2147483648], np.int32)
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

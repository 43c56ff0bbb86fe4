"""Elu between a quotient and a product by a constant ends the process with SIGSEGV.

Elu: 'f(x) = alpha * (exp(x) - 1.) for x < 0'. Alone it is right. It is the body that ONNX gives of Celu. Nothing lets
an operator end the program that runs the model.
"""

import subprocess
import sys

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[1] x) => (float[1] y) {
    a = Constant <value_float = 2.0> ()
    b = Div(x, a)
    c = Elu(b)
    y = Mul(a, c)
}
"""
INPUTS = {"x": np.array([1], np.float32)}
RIGHT = np.array([1], np.float32)
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

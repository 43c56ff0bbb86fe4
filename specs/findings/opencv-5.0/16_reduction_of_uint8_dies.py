"""ReduceMin of uint8 over all axes ends the process with SIGSEGV.

ReduceMin: 'elements along the provided axes'. ReduceMean of double and ReduceProd of int32 do the same. Nothing lets
an operator end the program that runs the model.
"""

import subprocess
import sys

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (uint8[1,2] x) => (uint8 y) {
    y = ReduceMin <keepdims = 0, axes = [0, 1]> (x)
}
"""
INPUTS = {"x": np.array([[2, 3]], np.uint8)}
RIGHT = np.array(2, np.uint8)
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

"""What an If hands on of a constant is another number in the second run.

Identity: 'Identity operator'. The number is 7 in both branches and in each run. It seems that the result of the If has
the memory of the constant, which a later tensor takes: what is given is 3 + 3.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (bool p, float[1] x) => (float[1] y, float[1] z) {
    c = Constant <value_floats = [7.0]> ()
    v = If (p) <then_branch = t () => (float[1] a) { a = Identity(c) },
                else_branch = e () => (float[1] b) { b = Identity(c) }>
    y = Identity(v)
    k = Add(x, x)
    z = Add(k, k)
}
"""
INPUTS = {"p": np.array(False), "x": np.array([3], np.float32)}
RIGHT = np.array([7], np.float32)
WITHIN = 0.0
"""It is exact."""


def given():
    import cv2

    model = onnx.parser.parse_model(MODEL).SerializeToString()
    net = cv2.dnn.readNetFromONNX(np.frombuffer(model, np.uint8))
    for _ in range(2):
        for name, value in INPUTS.items():
            net.setInput(value, name)
        made = np.array(net.forward(["y", "z"])[0])
    return made


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

"""Who reads a constant that is an output, too, reads 0.

Constant: 'This operator produces a constant tensor'. That it is an output of the graph changes no value.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 14]>
g (float[2] x) => (float[2] y, float[1] one) {
    one = Constant <value = float[1] {1}> ()
    y = Add (x, one)
}
"""
INPUTS = {"x": np.array([1, 2], np.float32)}
RIGHT = np.array([2, 3], np.float32)
WITHIN = 0.0


def given():
    from emx_onnx_cgen.onnx_backend import prepare

    return np.array(prepare(onnx.parser.parse_model(MODEL)).run(list(INPUTS.values()))[0])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

"""Selu of 1 is 1.0507.

Selu: 'Coefficient of SELU default to 1.05070102214813232421875 (i.e., float32 approximation of
1.0507009873554804934193349852946)'. It has five digits of that, and six of alpha: below 0 it is off by 40 units in
the last place.
"""

import tempfile

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[1] x) => (float[1] y) {
    y = Selu(x)
}
"""
INPUTS = {"x": np.ones(1, np.float32)}
RIGHT = np.array([1.050701], np.float32)
WITHIN = 2e-7
"""Some units in the last place."""


def given():
    import tract

    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.onnx"
        onnx.save(onnx.parser.parse_model(MODEL), path)
        runnable = tract.onnx().load(path).into_model().into_runnable()
    return runnable.run(list(INPUTS.values()))[0].to_numpy()


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())

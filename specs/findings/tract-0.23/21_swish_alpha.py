"""Swish takes no notice of alpha.

Swish: 'Coefficient to multiply with input before sigmoid'. Of the coefficient 0 it is half of the number.
"""

import tempfile

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 24]>
g (float[1] x) => (float[1] y) {
    y = Swish <alpha = 0.0> (x)
}
"""
INPUTS = {"x": np.ones(1, np.float32)}
RIGHT = np.array([0.5], np.float32)
WITHIN = 1e-6
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

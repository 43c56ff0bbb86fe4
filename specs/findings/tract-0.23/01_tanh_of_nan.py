"""Tanh of NaN is -1.

Tanh: 'Calculates the hyperbolic tangent of the given input tensor element-wise'; that of no number is no number.
Sigmoid of NaN is 4.5e-7.
"""

import tempfile

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[2] y) {
    y = Tanh(x)
}
"""
INPUTS = {"x": np.array([np.nan, 1], np.float32)}
RIGHT = np.tanh(INPUTS["x"])
WITHIN = 1e-5
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

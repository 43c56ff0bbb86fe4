"""Sigmoid of NaN is near 0.

Sigmoid: 'y = 1 / (1 + exp(-x)), is applied to the tensor elementwise'. What is compared with bounds first loses that
it is no number. Tanh does the same.
"""

import tempfile

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[2] y) {
    y = Sigmoid(x)
}
"""
INPUTS = {"x": np.array([np.nan, 1], np.float32)}
RIGHT = np.array([np.nan, 0.7310586], np.float32)
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

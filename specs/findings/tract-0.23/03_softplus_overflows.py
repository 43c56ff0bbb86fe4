"""Softplus of 100 is infinite.

Softplus: 'y = ln(exp(x) + 1)', which is 100: the function of numbers has no overflow on the way.
"""

import tempfile

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[2] y) {
    y = Softplus(x)
}
"""
INPUTS = {"x": np.array([1, 100], np.float32)}
RIGHT = np.array([1.3132617, 100], np.float32)
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

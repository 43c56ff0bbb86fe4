"""Div of a float16 by itself is not 1.

Div: 'Performs element-wise binary division'. What is given is the product with the reciprocal, rounded twice.
So is it of float32: 0.37719065 by itself is 0.9999999.
"""

import tempfile

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float16[1] x, float16[1] z) => (float16[1] y) {
    y = Div(x, z)
}
"""
INPUTS = {"x": np.array([49], np.float16), "z": np.array([49], np.float16)}
RIGHT = np.array([1], np.float16)
WITHIN = 0.0
"""It is exact."""


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

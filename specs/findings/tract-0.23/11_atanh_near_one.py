"""Atanh of -0.996 is off by 14 units in the last place.

Atanh: 'Calculates the hyperbolic arctangent of the given input tensor element-wise'. It may be off by 4 (M9.2).
"""

import tempfile

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[1] x) => (float[1] y) {
    y = Atanh(x)
}
"""
INPUTS = {"x": np.array([-0.996], np.float32)}
RIGHT = np.array([-3.1063019], np.float32)
WITHIN = 5e-7
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

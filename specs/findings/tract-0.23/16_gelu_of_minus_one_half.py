"""Gelu of -0.5 is off by 9 units in the last place.

Gelu: 'where the gaussian error linear units function, $y = 0.5 * x * (1 + erf(x/sqrt(2)))$ is applied to the tensor
elementwise'. It may be off by 4 and what the sum cancels (M9.2).
"""

import tempfile

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 20]>
g (float[1] x) => (float[1] y) {
    y = Gelu(x)
}
"""
INPUTS = {"x": np.array([-0.5], np.float32)}
RIGHT = np.array([-0.15426877], np.float32)
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

"""MaxPool of -inf is the least finite number.

MaxPool: 'max pooling consisting of computing the max on all values of a subset of the input tensor'; -inf is the only
value. ReduceMax does the same.
"""

import tempfile

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[1,1,2] x) => (float[1,1,1] y) {
    y = MaxPool <kernel_shape = [2]> (x)
}
"""
INPUTS = {"x": np.array([[[-np.inf, -np.inf]]], np.float32)}
RIGHT = np.array([[[-np.inf]]], np.float32)
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

"""LogSoftmax of 0 and 88 is off in the third digit.

LogSoftmax: 'LogSoftmax(input, axis) = Log(Softmax(input, axis=axis))', which is -88 in float32, or -inf where
subnormal numbers are zeros. The Softmax of tract is twice exp(-88), and 1.6e-38 for exp(-103), which is 1.9e-45.
"""

import tempfile

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[2] y) {
    y = LogSoftmax <axis = 0> (x)
}
"""
INPUTS = {"x": np.array([0, 88], np.float32)}
RIGHT = np.array([-88, 0], np.float32)
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

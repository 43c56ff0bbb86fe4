"""ReduceSum of int64 is one of int32.

ReduceSum: 'Computes the sum of the input tensor'. That of 2^31 alone is -2^31. So it is in ReduceMean and ReduceL1;
ReduceMax and ReduceProd are right.
"""

import tempfile

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 13]>
g (int64[1] x) => (int64[1] y) {
    y = ReduceSum(x)
}
"""
INPUTS = {"x": np.array([2147483648])}
RIGHT = np.array([2147483648])
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

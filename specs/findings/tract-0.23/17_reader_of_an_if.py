"""Neg of an If gets the branch that is not taken.

If: 'Graph to run if condition is false. Has N outputs: values you wish to be live-out to the enclosing scope'. The
condition is false, and what is given is the negative of the sum. As an output by itself the If is right.
"""

import tempfile

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (bool b) => (float[1] y) {
    c = Constant <value_floats = [1.0]> ()
    a = If (b) <
        then_branch = t () => (float[1] s) { s = Add(c, c) },
        else_branch = e () => (float[1] k) { k = Identity(c) }
    >
    y = Neg(a)
}
"""
INPUTS = {"b": np.array(False)}
RIGHT = np.array([-1], np.float32)
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

"""Attention with is_causal and past_key does not count the past.

Attention-24: 'query `i` attends key `j` iff `j <= i + offset`', and 'offset = past_sequence_length', which is 1: the
only query sees the past key and the new one. It is given the first value alone, as without a past.
"""

import tempfile

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 24]>
g (float[1,1,1,1] q, float[1,1,1,1] k, float[1,1,1,1] v, float[1,1,1,1] pk, float[1,1,1,1] pv)
    => (float[1,1,1,1] y, float[1,1,2,1] nk, float[1,1,2,1] nv) {
    y, nk, nv = Attention <is_causal = 1> (q, k, v, , pk, pv)
}
"""
INPUTS = {
    "q": np.zeros((1, 1, 1, 1), np.float32),
    "k": np.zeros((1, 1, 1, 1), np.float32),
    "v": np.full((1, 1, 1, 1), 2, np.float32),
    "pk": np.zeros((1, 1, 1, 1), np.float32),
    "pv": np.ones((1, 1, 1, 1), np.float32),
}
RIGHT = np.array([[[[1.5]]]], np.float32)
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

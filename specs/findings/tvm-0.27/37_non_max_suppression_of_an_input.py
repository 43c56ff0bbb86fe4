"""The frontend's NonMaxSuppression takes 0 for a number of boxes that is an input of the model.

NonMaxSuppression: 'Integer representing the maximum number of boxes to be selected per batch per class'. Thresholds
that are inputs are taken for 0.5 and 0.
"""

import sys

import numpy as np
import onnx.parser
import tvm
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx


def compiled(mod, *arguments):
    """What `main` gives, compiled for the CPU by `tvm.compile` as it stands."""
    machine = relax.VirtualMachine(tvm.compile(mod, tvm.target.Target("llvm")), tvm.cpu())
    result = machine["main"](*map(tvm.runtime.tensor, arguments))
    return result.numpy() if hasattr(result, "numpy") else [r.numpy() for r in result]


MODEL = """
<ir_version: 10, opset_import: ["" : 11]>
g (float[1, 1, 4] boxes, float[1, 1, 1] scores, int64[1] k, float[1] t) => (int64[n, 3] y) {
    y = NonMaxSuppression (boxes, scores, k, t)
}
"""
INPUTS = (
    np.array([[[0, 0, 1, 1]]], np.float32),
    np.ones((1, 1, 1), np.float32),
    np.array([1]),
    np.array([0.5], np.float32),
)
RIGHT = np.array([[0, 0, 0]])


def case():
    given = compiled(from_onnx(onnx.parser.parse_model(MODEL), keep_params_in_input=False), *INPUTS)
    return given, RIGHT, not np.array_equal(given, RIGHT)


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)

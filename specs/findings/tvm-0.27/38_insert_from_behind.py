"""The frontend's SequenceInsert at -1 puts the tensor behind the last one, must be in front of it.

SequenceInsert: 'Negative value means counting positions from the back'. With n tensors -n is the first position, as
'Accepted range for 'position' is in `[-n, n]`' shows; the frontend adds n + 1, and -n comes to the second one.
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
g (float[1] x, float[1] y) => (float[1] z) {
    s = SequenceConstruct (x)
    last = Constant <value = int64 {-1}> ()
    t = SequenceInsert (s, y, last)
    first = Constant <value = int64 {0}> ()
    z = SequenceAt (t, first)
}
"""
INPUTS = (np.array([1], np.float32), np.array([2], np.float32))
RIGHT = np.array([2], np.float32)


def case():
    given = compiled(from_onnx(onnx.parser.parse_model(MODEL), keep_params_in_input=False), *INPUTS)
    return given, RIGHT, not np.array_equal(given, RIGHT)


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)

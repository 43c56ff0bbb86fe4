"""The frontend's Mod of 1 by infinity is NaN.

Mod: 'If `y` is `±∞` and `x` is finite and nonzero, `x` is returned when `x` and `y` have the same sign; otherwise, `y`
is returned'. It is computed as x - floor(x / y) * y, and 0 times infinity is NaN.
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
<ir_version: 10, opset_import: ["" : 28]>
g (float[1] x, float[1] y) => (float[1] z) { z = Mod (x, y) }
"""
INPUTS = (np.array([1], np.float32), np.array([np.inf], np.float32))
RIGHT = np.array([1], np.float32)


def case():
    given = compiled(from_onnx(onnx.parser.parse_model(MODEL), keep_params_in_input=False), *INPUTS)
    return given, RIGHT, not np.array_equal(given, RIGHT)


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)

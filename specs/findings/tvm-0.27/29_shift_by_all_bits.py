"""The frontend's BitShift by 32 shifts by 0, and by -1 by 31.

BitShift: 'If Y is negative, or is greater than or equal to the number of bits of T, then the result is whatever the
sign bit extension alone produces'. The shift instruction of the machine takes the amount modulo 32.
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
g (int32[3] x, int32[3] y) => (int32[3] z) { z = BitShift <direction = "LEFT"> (x, y) }
"""
INPUTS = (np.array([1, 1, 1], np.int32), np.array([1, 32, -1], np.int32))
RIGHT = np.array([2, 0, 0], np.int32)


def case():
    given = compiled(from_onnx(onnx.parser.parse_model(MODEL), keep_params_in_input=False), *INPUTS)
    return given, RIGHT, not np.array_equal(given, RIGHT)


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)

"""The frontend's LayerNormalization gives 0 as its second and third result.

LayerNormalization: 'The second output is `Mean` and the last one is `InvStdDev`'. Both are scalars of 0 here, of
whatever shape they must be.
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
<ir_version: 10, opset_import: ["" : 17]>
g (float[1, 2] x, float[2] s) => (float[1, 2] y, float[1, 1] m, float[1, 1] d) { y, m, d = LayerNormalization (x, s) }
"""
INPUTS = (np.array([[1, 3]], np.float32), np.ones(2, np.float32))
RIGHT = np.array([[2]], np.float32)


def case():
    given = compiled(from_onnx(onnx.parser.parse_model(MODEL), keep_params_in_input=False), *INPUTS)[1]
    return given, RIGHT, not np.array_equal(given, RIGHT)


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)

"""R.power of whole numbers cannot be compiled: "power only applies to float".

Pow: 'the function `f(x) = x^exponent`, is applied to the data tensor elementwise'; its types T and T1 are also int32
and int64, and the frontend takes them.
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
<ir_version: 10, opset_import: ["" : 15]>
g (int32[1] x, int32[1] y) => (int32[1] z) { z = Pow (x, y) }
"""
INPUTS = (np.array([2], np.int32), np.array([3], np.int32))
RIGHT = np.array([8], np.int32)


def case():
    try:
        given = compiled(from_onnx(onnx.parser.parse_model(MODEL), keep_params_in_input=False), *INPUTS)
        return given, RIGHT, False
    except Exception as wrong:  # noqa: BLE001  TVM raises whatever its parts happen to raise
        said = " ".join(str(wrong).split())
        return f"{type(wrong).__name__}: {said}"[:160], RIGHT, "power only applies to float" in said


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)

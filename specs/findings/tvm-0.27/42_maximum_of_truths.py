"""R.max and R.min of truth values cannot be compiled: "Cannot decide min_value".

ReduceMax: 'If the input data type is Boolean, the comparison should consider `False < True`'.
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
<ir_version: 10, opset_import: ["" : 20]>
g (bool[2] x) => (bool[1] y) { y = ReduceMax (x) }
"""
INPUTS = (np.array([False, True]),)
RIGHT = np.array([True])


def case():
    try:
        given = compiled(from_onnx(onnx.parser.parse_model(MODEL), keep_params_in_input=False), *INPUTS)
        return given, RIGHT, False
    except Exception as wrong:  # noqa: BLE001  TVM raises whatever its parts happen to raise
        said = " ".join(str(wrong).split())
        return f"{type(wrong).__name__}: {said}"[:160], RIGHT, "Cannot decide min_value" in said


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)

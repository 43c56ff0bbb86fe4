"""Resize to one element with align_corners cannot be compiled: "Divide by zero".

Resize: '`length_resized` as the length of the resized tensor in axis x', which less one is 0 here. ONNX's
ReferenceEvaluator takes the first element.
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
<ir_version: 10, opset_import: ["" : 19]>
g (float[1, 1, 1, 2] x) => (float[1, 1, 1, 1] y)
<int64[4] s = {1, 1, 1, 1}> {
    y = Resize <mode = "linear", coordinate_transformation_mode = "align_corners"> (x, , , s)
}
"""
INPUTS = (np.array([[[[1, 2]]]], np.float32),)
RIGHT = np.array([[[[1]]]], np.float32)


def case():
    try:
        given = compiled(from_onnx(onnx.parser.parse_model(MODEL), keep_params_in_input=False), *INPUTS)
        return given, RIGHT, False
    except Exception as wrong:  # noqa: BLE001  TVM raises whatever its parts happen to raise
        said = " ".join(str(wrong).split())
        return f"{type(wrong).__name__}: {said}"[:160], RIGHT, "Divide by zero" in said


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)

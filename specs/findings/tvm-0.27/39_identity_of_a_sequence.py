"""The frontend's Identity of a sequence of two is its first tensor, and SequenceAt of that fails.

Identity: 'Tensor to copy input into'; its type V is also that of sequences (Identity-14).
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
<ir_version: 10, opset_import: ["" : 14]>
g (float[1] x, float[1] y) => (float[1] z) {
    s = SequenceConstruct (x, y)
    t = Identity (s)
    second = Constant <value = int64 {1}> ()
    z = SequenceAt (t, second)
}
"""
INPUTS = (np.array([1], np.float32), np.array([2], np.float32))
RIGHT = np.array([2], np.float32)


def case():
    try:
        given = compiled(from_onnx(onnx.parser.parse_model(MODEL), keep_params_in_input=False), *INPUTS)
        return given, RIGHT, False
    except Exception as wrong:  # noqa: BLE001  TVM raises whatever its parts happen to raise
        said = " ".join(str(wrong).split())
        return f"{type(wrong).__name__}: {said}"[:160], RIGHT, "The type of Tuple must be TupleType" in said


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)

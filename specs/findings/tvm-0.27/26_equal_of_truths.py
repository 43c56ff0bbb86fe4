"""`a == b` of truth values cannot be compiled: the code generator for llvm compares them as floats.

ONNX Equal-19 takes bool, and R.equal derives a type for it. `R.not_equal` is the same.
"""

import sys

import numpy as np
import tvm
from tvm import relax
from tvm.script import ir as I, relax as R


def compiled(mod, *arguments):
    """What `main` gives, compiled for the CPU by `tvm.compile` as it stands."""
    machine = relax.VirtualMachine(tvm.compile(mod, tvm.target.Target("llvm")), tvm.cpu())
    result = machine["main"](*map(tvm.runtime.tensor, arguments))
    return result.numpy() if hasattr(result, "numpy") else [r.numpy() for r in result]


@I.ir_module
class Equal:
    @R.function
    def main(x: R.Tensor((2,), "bool"), y: R.Tensor((2,), "bool")) -> R.Tensor((2,), "bool"):
        z = R.equal(x, y)
        return z


def case():
    x, y = np.array([True, False]), np.array([True, True])
    try:
        return compiled(Equal, x, y), x == y, False
    except Exception as wrong:  # noqa: BLE001  TVM raises whatever its parts happen to raise
        return (
            f"{type(wrong).__name__}: {' '.join(str(wrong).split())}"[:120],
            x == y,
            "Invalid operand types for FCmp" in str(wrong),
        )


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)

"""tvm.runtime.tensor of a NumPy array of int4 fails: "TensorCopyFromBytes: size mismatch".

It makes a tensor of int4 for it, two to a byte, and does not pack the array's numbers, as it does those of
float4_e2m1fn. So it is with uint4, int2 and uint2.
"""

import sys

import ml_dtypes
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
class Module:
    @R.function
    def main(x: R.Tensor((3,), "int4")):
        y = R.astype(x, "int8")
        return y


INPUTS = (np.array([6, -1, 2], ml_dtypes.int4),)
RIGHT = np.array([6, -1, 2], np.int8)


def case():
    try:
        return compiled(Module, *INPUTS), RIGHT, False
    except Exception as wrong:  # noqa: BLE001  TVM raises whatever its parts happen to raise
        said = " ".join(str(wrong).split())
        return f"{type(wrong).__name__}: {said}"[:160], RIGHT, "size mismatch" in said


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)

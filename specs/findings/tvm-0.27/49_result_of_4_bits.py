"""The machine has no memory for a result of int4: "Check failed: dtype.bits % 8 == 0".

It compiles. int4, uint4, int2 and uint2 are data types of TVM and of ONNX; the code generator counts them as packed.
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
    def main(x: R.Tensor((1,), "float32")):
        y = R.astype(x, "int4")
        return y


INPUTS = (np.array([6], np.float32),)
RIGHT = np.array([6], ml_dtypes.int4)


def case():
    try:
        return compiled(Module, *INPUTS), RIGHT, False
    except Exception as wrong:  # noqa: BLE001  TVM raises whatever its parts happen to raise
        said = " ".join(str(wrong).split())
        return f"{type(wrong).__name__}: {said}"[:160], RIGHT, "dtype.bits % 8 == 0" in said


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)

"""R.astype to and from float4_e2m1fn cannot be compiled.

It is a data type of TVM, and of ONNX; Cast: 'The operator casts the elements of a given input tensor to a data type
specified by the 'to' argument'. The code generator for llvm asks for floats that are no small ones.
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
        y = R.astype(x, "float4_e2m1fn")
        return y


INPUTS = (np.array([6], np.float32),)
RIGHT = np.array([6], ml_dtypes.float4_e2m1fn)


def case():
    try:
        return compiled(Module, *INPUTS), RIGHT, False
    except Exception as wrong:  # noqa: BLE001  TVM raises whatever its parts happen to raise
        said = " ".join(str(wrong).split())
        return f"{type(wrong).__name__}: {said}"[:160], RIGHT, "kDLFloat" in said


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)

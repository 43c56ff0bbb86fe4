"""R.add of tensors whose sizes are two symbols cannot be compiled, though both are 1 when it is run.

Its type has no shape; LegalizeOps leaves such a call as it is, and the code generator knows no operators. So does
R.broadcast_to to a shape that is computed, to which the frontend's ConstantOfShape comes. Add: 'Performs element-wise
binary addition (with Numpy-style broadcasting support)'.
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
class Module:
    @R.function
    def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32")):
        z = R.add(x, y)
        return z


INPUTS = (np.ones(1, np.float32), np.ones(1, np.float32))
RIGHT = np.array([2], np.float32)


def case():
    try:
        return compiled(Module, *INPUTS), RIGHT, False
    except Exception as wrong:  # noqa: BLE001  TVM raises whatever its parts happen to raise
        said = " ".join(str(wrong).split())
        return f"{type(wrong).__name__}: {said}"[:160], RIGHT, "CodeGenVM cannot emit" in said


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)

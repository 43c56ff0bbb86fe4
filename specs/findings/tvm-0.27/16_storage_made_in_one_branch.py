"""The process dies: memory allocated in one branch is used in the other (as in apache/tvm issue 20191).

StaticPlanBlockMemory puts `alloc_storage` where the storage is first used, in the first branch, and gives the same
storage to the second one, where that allocation has not run. A use must be dominated by its definition. With a true
condition the result is right; with a false one the machine reads a storage that is none.
"""

import subprocess
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
class Branches:
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        if c:
            b = R.multiply(x, x)
            r = R.add(b, x)
        else:
            b = R.subtract(x, x)
            r = R.multiply(b, x)
        return r


def case():
    if "--run" in sys.argv:
        return compiled(Branches, np.array(False), np.arange(4, dtype="float32")), [0.0] * 4, False
    ended = subprocess.run([sys.executable, __file__, "--run"], capture_output=True, check=False).returncode
    return f"the process ends with {ended}", [0.0] * 4, ended < 0


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows or "--run" in sys.argv else 1)

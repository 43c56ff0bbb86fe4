"""The check of a match_cast is lost: a result where an error must come.

y has 5 elements and is cast to the shape (n,), where n is 3 by x. relax.MatchCast "does runtime check, populates the
un-defined symbolic shape vars ... and insert equality assertions in other cases" (its documentation); with `y:
R.Tensor("float32", ndim=1)` the error comes. The first stage without the check is KillAfterLastUse in the pipeline of
tvm.compile, CanonicalizeTIRVariables in the target's own.
"""

import sys

import numpy as np
import tvm
from tvm import relax
from tvm.script import ir as I, relax as R, tirx as T


def compiled(mod, *arguments):
    """What `main` gives, compiled for the CPU by `tvm.compile` as it stands."""
    machine = relax.VirtualMachine(tvm.compile(mod, tvm.target.Target("llvm")), tvm.cpu())
    result = machine["main"](*map(tvm.runtime.tensor, arguments))
    return result.numpy() if hasattr(result, "numpy") else [r.numpy() for r in result]


@I.ir_module
class Lost:
    @R.function
    def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32")) -> R.Tensor((), "float32"):
        n = T.int64()
        z = R.match_cast(y, R.Tensor((n,), "float32"))
        w = R.sum(z)
        return w


def case():
    try:
        given = compiled(Lost, np.ones(3, "float32"), np.ones(5, "float32"))
    except Exception as wrong:  # noqa: BLE001  TVM raises whatever its parts happen to raise
        return f"{type(wrong).__name__}", "an error", False
    return given, "an error: the size is 5, and must be 3", True


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)

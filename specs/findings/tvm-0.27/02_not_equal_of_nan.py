"""NaN != NaN is False, and not (NaN < 1) is False.

IEEE 754-2019, 5.11 and 5.7: an unordered pair is not equal, and not less; so `!=` holds, and so does the negation of
`<`. The code for llvm compares orderly; for the target c the same function is printed with `!=`, so two targets of TVM
differ. `not (a < b)` is `b <= a` in the code of both.
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
class Compare:
    @R.function
    def main(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")) -> R.Tensor((2,), "bool"):
        z = R.not_equal(x, y)
        return z


@I.ir_module
class Negate:
    @T.prim_func(private=True, s_tir=True)
    def not_less(a: T.Buffer((2,), "float32"), b: T.Buffer((2,), "float32"), c: T.Buffer((2,), "bool")):
        for i in range(2):
            c[i] = T.Not(a[i] < b[i])

    @R.function
    def main(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")) -> R.Tensor((2,), "bool"):
        z = R.call_tir(Negate.not_less, (x, y), out_ty=R.Tensor((2,), "bool"))
        return z


def case():
    x, y = np.array([np.nan, 2], "float32"), np.array([np.nan, 1], "float32")
    given = [compiled(Compare, x, y), compiled(Negate, x, y)]
    right = [x != y, ~(x < y)]
    return given, right, not np.array_equal(given, right)


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)

"""FoldConstant makes a constant of a tensor that is changed in place: every run gives another result than the one
before.

`a` is computed in each run, read by nobody else, and changed in place, as `call_tir_inplace` allows. FoldConstant
computes it at compile time, so that the call changes a constant of the module. The target's own pipeline has this pass,
the default one has not.
"""

import sys

import numpy as np
import tvm
from tvm import relax
from tvm.script import ir as I, relax as R, tirx as T


@I.ir_module
class Folded:
    @T.prim_func(private=True, s_tir=True)
    def double(a: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("double"):
                v = T.axis.spatial(4, i)
                a[v] = a[v] + a[v]

    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Folded
        a = R.add(R.const([1.0, 1.0, 1.0, 1.0], "float32"), R.const([0.0, 1.0, 2.0, 3.0], "float32"))
        b = R.call_tir_inplace(cls.double, (a,), inplace_indices=[0], out_ty=R.Tensor((4,), "float32"))
        c = R.add(b, x)
        return c


def case():
    x = np.array([0, 1, 2, 3], "float32")
    target = tvm.target.Target("llvm")
    compiled = relax.VirtualMachine(
        tvm.compile(Folded, target, relax_pipeline=relax.get_default_pipeline(target)), tvm.cpu()
    )
    given = [compiled["main"](tvm.runtime.tensor(x)).numpy().tolist() for _ in range(3)]
    right = [(2 * np.array([1, 2, 3, 4], "float32") + x).tolist()] * 3
    return given, right, given[0] == right[0] and given[1] != right[1]


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)

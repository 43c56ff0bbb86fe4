"""A program that is right cannot be compiled: FuseTIR ends with its internal error "Inconsistent buffers".

FuseOps puts a call that changes its operand in place into one group with its neighbours, and FuseTIR takes the operand
and what the call leaves there for two buffers. The target's own pipeline has these passes, the default one has not.
"""

import sys

import numpy as np
import tvm
from tvm import relax
from tvm.script import ir as I, relax as R, tirx as T


@I.ir_module
class Doubled:
    @T.prim_func(private=True, s_tir=True)
    def double(a: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("double"):
                v = T.axis.spatial(4, i)
                a[v] = a[v] + a[v]

    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Doubled
        with R.dataflow():
            a = R.negative(x)
            b = R.call_tir_inplace(cls.double, (a,), inplace_indices=[0], out_ty=R.Tensor((4,), "float32"))
            c = R.add(b, x)
            R.output(c)
        return c


def case():
    x = np.array([0, 1, 2, 3], "float32")
    target = tvm.target.Target("llvm")
    try:
        code = tvm.compile(Doubled, target, relax_pipeline=relax.get_default_pipeline(target))
        given = relax.VirtualMachine(code, tvm.cpu())["main"](tvm.runtime.tensor(x)).numpy().tolist()
    except Exception as wrong:  # noqa: BLE001  TVM raises whatever its parts happen to raise
        given = str(wrong).strip().splitlines()[-1]
    return given, (-x).tolist(), "Inconsistent buffers" in str(given)


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)

"""A tensor is changed in place while a copy of it is read later: the copy is the same memory.

DataflowUseInplaceCalls follows views (expand_dims, reshape and others; apache/tvm issue 19577), and takes what any
other operator gives for memory of its own. Operators that only copy here, astype to the dtype that it has, broadcast_to
to the same shape, strided_slice of the whole, concat of one, tile by 1, become views later, by RewriteDataflowReshape.
`b` is exp(x), and must not have x added to it. The rule is that of `call_tir_inplace`: no operand that is changed is
aliased or live after the call.
"""

import sys

import numpy as np
import tvm
from tvm import relax
from tvm.script import ir as I, relax as R


def machine(mod):
    """The module as DataflowUseInplaceCalls changes it, compiled for the CPU by `tvm.compile` as it stands."""
    changed = relax.transform.DataflowUseInplaceCalls()(mod)
    return relax.VirtualMachine(tvm.compile(changed, tvm.target.Target("llvm")), tvm.cpu())


@I.ir_module
class Copy:
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        with R.dataflow():
            a = R.exp(x)
            b = R.astype(a, "float32")
            c = R.add(a, x)
            e = R.multiply(b, c)
            R.output(e)
        return e


def case():
    x = np.array([0, 1, 2, 3], "float32")
    given = machine(Copy)["main"](tvm.runtime.tensor(x)).numpy()
    wide = np.exp(x.astype("float64"))
    right = wide * (wide + x)
    return given, right, not np.allclose(given, right)


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)

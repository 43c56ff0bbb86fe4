"""A tensor is changed in place while a tuple that holds it is still to be taken apart.

The liveness analysis of DataflowUseInplaceCalls counts no use of a tuple where a part of it is taken, so `a` is thought
to be dead after the addition, and is read after it as `t[0]`. The rule is that of `call_tir_inplace`: no operand that
is changed is aliased or live after the call.
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
class Tuples:
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        with R.dataflow():
            a = R.exp(x)
            t = (a, x)
            c = R.add(a, x)
            b = t[0]
            e = R.multiply(b, c)
            R.output(e)
        return e


def case():
    x = np.array([0, 1, 2, 3], "float32")
    given = machine(Tuples)["main"](tvm.runtime.tensor(x)).numpy()
    wide = np.exp(x.astype("float64"))
    right = wide * (wide + x)
    return given, right, not np.allclose(given, right)


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)

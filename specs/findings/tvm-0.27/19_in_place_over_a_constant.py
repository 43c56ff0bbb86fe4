"""A constant of the module is changed in place: every run gives another result than the one before.

DataflowUseInplaceCalls takes a constant that has a name for memory of its own that nobody else reads, so the sum is
written over it. The first run is right; a run finds what the run before has left. A function without side effects gives
the same result on the same operands.
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
class Constants:
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        with R.dataflow():
            a = R.const(np.array([1, 1, 1, 1], "float32"))
            c = R.add(a, x)
            e = R.negative(c)
            R.output(e)
        return e


def case():
    x = np.array([0, 1, 2, 3], "float32")
    compiled = machine(Constants)
    given = [compiled["main"](tvm.runtime.tensor(x)).numpy().tolist() for _ in range(3)]
    right = [(-(x + 1)).tolist()] * 3
    return given, right, given[0] == right[0] and given[1] != right[1]


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)

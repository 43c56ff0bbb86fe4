"""A program that is right cannot be compiled: FuseOps makes a circle of its groups around a match_cast.

`a` and what is computed of `a` and `b` are put into one group, and `b`, which is `a` with its type checked, is left
outside: it would need a result of the group and give one of its operands. FuseOps ends with its internal error
"A cyclic dependency detected between the groups". The target's own pipeline has this pass, the default one has not.
"""

import sys

import numpy as np
import tvm
from tvm import relax
from tvm.script import ir as I, relax as R


@I.ir_module
class Checked:
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        with R.dataflow():
            a = R.negative(x)
            b = R.match_cast(a, R.Tensor((4,), "float32"))
            c = R.add(b, a)
            R.output(c)
        return c


def case():
    x = np.array([0, 1, 2, 3], "float32")
    target = tvm.target.Target("llvm")
    right = (-2 * x).tolist()
    try:
        code = tvm.compile(Checked, target, relax_pipeline=relax.get_default_pipeline(target))
        given = relax.VirtualMachine(code, tvm.cpu())["main"](tvm.runtime.tensor(x)).numpy().tolist()
    except Exception as wrong:  # noqa: BLE001  TVM raises whatever its parts happen to raise
        given = str(wrong).strip().splitlines()[-1]
    return given, right, "cyclic dependency" in str(given)


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)

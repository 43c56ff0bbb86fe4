"""tanh(1e-8) and atanh(1e-8) are 0: every digit is lost.

Both are x - or + x**3 / 3 + ..., so for |x| < 1e-4 the float nearest to x is within one unit in the last place of the
right result. An error that is relative to the result, however generous (our rule M9 allows 4 units in the last place),
does not allow 0 for 1e-8. `right` is NumPy's in float64.
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
class Small:
    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tuple(R.Tensor((2,), "float32"), R.Tensor((2,), "float32")):
        y = R.tanh(x)
        z = R.atanh(x)
        return (y, z)


def case():
    x = np.array([1e-8, 1e-4], "float32")
    given = compiled(Small, x)
    wide = x.astype("float64")
    return given, [np.tanh(wide), np.arctanh(wide)], given[0][0] == 0 and given[1][0] == 0


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)

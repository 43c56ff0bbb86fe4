"""A difference of specification: maximum, relu, clip and max lose NaN, or keep it, by the side on which it stands.

TVM's documentation does not say what maximum does to NaN; `max(a, b)` is `a > b ? a : b` for every target. NumPy, the
array API standard and our rule M5 (IEEE 754-2019, 9.6: maximum) keep NaN on both sides.
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
class Largest:
    @R.function
    def main(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        z = R.maximum(x, y)
        return z


def case():
    x, y = np.array([np.nan, 1], "float32"), np.array([1, np.nan], "float32")
    given = compiled(Largest, x, y)
    return given, np.maximum(x, y), bool(np.isnan(given[0]) != np.isnan(given[1]))


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)

"""Zero as an 8-bit float is 0.0078125 as a float32 (apache/tvm issue 20315): so are subnormals, infinities and NaN
other numbers.

Each code of float8_e4m3fn and float8_e5m2 is a number (OCP 8-bit Floating Point Specification, 5; ml_dtypes), and
float32 holds all of them. FP8ComputeLegalize moves the bits of exponent and fraction as if every number were normal.
"""

import sys

import ml_dtypes
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
class Widened:
    @R.function
    def main(x: R.Tensor((4,), "float8_e5m2")) -> R.Tensor((4,), "float32"):
        y = R.astype(x, "float32")
        return y


def case():
    x = np.array([0, 2.0**-16, np.inf, np.nan]).astype(ml_dtypes.float8_e5m2)
    given, right = compiled(Widened, x), x.astype("float32")
    return given, right, given[0] != 0 and bool(np.isfinite(given).all())


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)

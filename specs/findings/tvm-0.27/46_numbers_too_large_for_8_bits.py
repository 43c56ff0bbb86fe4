"""1000, infinity and NaN as float8_e4m3fn are -0.015625, 1 and 1.5.

That format has no infinity: NaN must come to NaN, and numbers beyond the largest to the largest or to NaN (OCP 8-bit
Floating Point Specification, 5.2.1). So says ONNX, Cast: 'The parameter defines how the conversion behaves if an input
value is out of range of the destination type'. FP8ComputeLegalize moves the bits of exponent and fraction as they are;
float8_e5m2 and the formats fnuz are as wrong. Of the numbers
that are subnormal there, 2^-16 comes to 0 as float8_e5m2.
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
class Module:
    @R.function
    def main(x: R.Tensor((3,), "float32")):
        y = R.astype(x, "float8_e4m3fn")
        return y


INPUTS = (np.array([1000, np.inf, np.nan], np.float32),)
RIGHT = np.array([448, 448, np.nan], ml_dtypes.float8_e4m3fn)


def case():
    given = compiled(Module, *INPUTS)
    return given, RIGHT, not np.array_equal(given, RIGHT, equal_nan=True)


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)

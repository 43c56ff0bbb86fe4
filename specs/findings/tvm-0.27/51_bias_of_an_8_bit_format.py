"""1 as float8_e5m2fnuz is 2 as a float16.

The exponents of that format are biased by 16 (ONNX, Float stored in 8 bits; ml_dtypes), float16 and float8_e5m2 by 15.
FP8ComputeLegalize moves the bits as if they were one format, so that every number is twice too large. As float32 normal
numbers are right (case 23 has the others).
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
    def main(x: R.Tensor((1,), "float8_e5m2fnuz")):
        y = R.astype(x, "float16")
        return y


INPUTS = (np.array([1], ml_dtypes.float8_e5m2fnuz),)
RIGHT = np.array([1], np.float16)


def case():
    given = compiled(Module, *INPUTS)
    return given, RIGHT, not np.array_equal(given, RIGHT, equal_nan=True)


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)

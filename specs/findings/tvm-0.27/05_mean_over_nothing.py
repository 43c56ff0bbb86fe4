"""The mean over an axis of size 0 cannot be compiled: "Divide by zero" while passes run.

The sum is 0 and the count is 0, so each element is 0 / 0, NaN by IEEE 754-2019, 7.2, as in NumPy. ONNX ReduceMean-18
leaves the numbers open ("Reduction over an empty set of values yields undefined"); the model itself is valid.
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
class Mean:
    @R.function
    def main(x: R.Tensor((0, 3), "float32")) -> R.Tensor((3,), "float32"):
        y = R.mean(x, axis=0)
        return y


def case():
    try:
        given = compiled(Mean, np.zeros((0, 3), "float32"))
    except Exception as wrong:  # noqa: BLE001  TVM raises whatever its parts happen to raise
        return f"{type(wrong).__name__}: {wrong}".splitlines()[-1], [np.nan] * 3, "ivide by zero" in str(wrong)
    return given, [np.nan] * 3, False


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)

"""The maximum over an axis of the fixed size 0 is whatever lay in memory.

NumPy has no such maximum, and raises an error; ONNX ReduceMax-20 has minus infinity. LegalizeOps makes a kernel that
writes its initial value inside of the reduction loop, which does not run, as over a symbolic size (case 14): sums and
products over a fixed 0 are made `full`. The machine's memory is filled with NaN here to show it.
"""

import ctypes
import sys

import numpy as np
import tvm
from tvm import relax
from tvm.script import ir as I, relax as R


@I.ir_module
class Maximum:
    @R.function
    def main(x: R.Tensor((3, 0), "float32")) -> R.Tensor((3,), "float32"):
        y = R.max(x, axis=[1])
        return y


def poison(func, name, before, result, *arguments):
    if not before and str(name) == "vm.builtin.alloc_tensor":
        ctypes.memset(result.data_ptr(), 0xFF, 12)
    return relax.VMInstrumentReturnKind.NO_OP


def case():
    machine = relax.VirtualMachine(tvm.compile(Maximum, tvm.target.Target("llvm")), tvm.cpu())
    machine.set_instrument(poison)
    given = machine["main"](tvm.runtime.tensor(np.zeros((3, 0), "float32"))).numpy()
    return given, "an error, or [-inf, -inf, -inf]", bool(np.isnan(given).all())


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)

"""A reduction over a symbolic size that is 0 leaves its result unwritten (apache/tvm issue 19578).

The product of no numbers is 1 (IEEE 754-2019, 9.4; NumPy). The kernel writes its initial value inside of the reduction
loop, which does not run, so memory is returned as it was found. The machine's memory is filled with NaN here to show
it.
"""

import ctypes
import sys

import numpy as np
import tvm
from tvm import relax
from tvm.script import ir as I, relax as R


@I.ir_module
class Product:
    @R.function
    def main(x: R.Tensor((2, "n"), "float32")) -> R.Tensor((2,), "float32"):
        y = R.prod(x, axis=[1])
        return y


def poison(func, name, before, result, *arguments):
    if not before and str(name) == "vm.builtin.alloc_tensor":
        ctypes.memset(result.data_ptr(), 0xFF, 8)
    return relax.VMInstrumentReturnKind.NO_OP


def case():
    machine = relax.VirtualMachine(tvm.compile(Product, tvm.target.Target("llvm")), tvm.cpu())
    machine.set_instrument(poison)
    given = machine["main"](tvm.runtime.tensor(np.zeros((2, 0), "float32"))).numpy()
    return given, [1.0, 1.0], bool(np.isnan(given).all())


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)

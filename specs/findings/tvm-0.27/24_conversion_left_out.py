"""A float32 that becomes an 8-bit float and a float32 again keeps all its digits (pipeline `cpu`).

What a program converts is rounded to a number of the narrower type (ONNX Cast-19; IEEE 754-2019, 5.4.2): 100.3 is 104.
After FuseTIR both conversions are in one kernel, whose buffer between them FP8ComputeLegalize makes one of wider
numbers; the conversion to 8 bits is no longer there. The default pipeline has two kernels, and rounds.
"""

import sys

import numpy as np
import tvm
from tvm import relax
from tvm.script import ir as I, relax as R


@I.ir_module
class Rounded:
    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        with R.dataflow():
            y = R.astype(x, "float8_e4m3fn")
            z = R.astype(y, "float32")
            R.output(z)
        return z


def case():
    x, target = np.array([1.06, 100.3], "float32"), tvm.target.Target("llvm")
    code = tvm.compile(Rounded, target, relax_pipeline=relax.get_default_pipeline(target))
    given = relax.VirtualMachine(code, tvm.cpu())["main"](tvm.runtime.tensor(x)).numpy()
    return given, [1.0, 104.0], given.tolist() == x.tolist()


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)

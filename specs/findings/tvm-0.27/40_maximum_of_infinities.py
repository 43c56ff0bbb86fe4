"""R.max of minus infinity alone is -3.4e38, and R.argmax of it -1; R.min is likewise.

ReduceMax: 'Computes the max of the input tensor's elements along the provided axes'. The reduction begins with the
least finite number, which is no neutral element; ONNX: 'Reduction over an empty set of values yields minus infinity'.
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
class Module:
    @R.function
    def main(x: R.Tensor((1,), "float32")):
        y = R.max(x, axis=0, keepdims=True)
        return y


INPUTS = (np.array([-np.inf], np.float32),)
RIGHT = np.array([-np.inf], np.float32)


def case():
    given = compiled(Module, *INPUTS)
    return given, RIGHT, not np.array_equal(given, RIGHT, equal_nan=True)


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)

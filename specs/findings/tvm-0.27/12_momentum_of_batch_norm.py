"""R.nn.batch_norm in training mode takes momentum the other way round than its documentation says.

It says: moving_mean = moving_mean * momentum + data_mean * (1 - momentum). With a moving mean of 0, a mean of 10 and
momentum 0.9 that is 1; 9 comes out. ONNX BatchNormalization says the same formula, and the frontend hands momentum over
as it is, so the running statistics of an ONNX model in training mode are wrong too, for every momentum but 0.5.
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
class Norm:
    @R.function
    def main(x: R.Tensor((2, 1), "float32")) -> R.Tensor((1,), "float32"):
        one = R.const([1.0], "float32")
        zero = R.const([0.0], "float32")
        y = R.nn.batch_norm(x, one, zero, zero, one, axis=1, momentum=0.9, training=True)
        z = y[1]
        return z


def case():
    given = compiled(Norm, np.array([[9], [11]], "float32"))
    return given, [1.0], abs(float(given[0]) - 1) > 1


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)

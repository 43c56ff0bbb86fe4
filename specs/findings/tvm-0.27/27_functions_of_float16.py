"""asin of float16 cannot be compiled for llvm: "unknown intrinsic".

ONNX Asin-22 takes float16. So it is with acos, atan, sinh, cosh, asinh and acosh; float32 and float64 are lowered to
calls.
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
class Arc:
    @R.function
    def main(x: R.Tensor((2,), "float16")) -> R.Tensor((2,), "float16"):
        y = R.asin(x)
        return y


def case():
    x = np.array([0.25, 0.5], "float16")
    try:
        return compiled(Arc, x), np.arcsin(x), False
    except Exception as wrong:  # noqa: BLE001  TVM raises whatever its parts happen to raise
        return (
            f"{type(wrong).__name__}: {' '.join(str(wrong).split())}"[:120],
            np.arcsin(x),
            "unknown intrinsic" in str(wrong),
        )


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)

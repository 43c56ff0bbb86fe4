"""R.split(x, [2, 2]), whose second part is empty, cannot be compiled: "split_indices must be sorted".

They are sorted. Its own type says that the parts have 2, 0 and 2 elements, as NumPy's do; ONNX Split-18 with the sizes
2, 0, 2 comes to this.
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
class Split:
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        y = R.split(x, [2, 2])
        return y


def case():
    x = np.arange(4, dtype="float32")
    try:
        return compiled(Split, x), np.split(x, [2, 2]), False
    except Exception as wrong:  # noqa: BLE001  TVM raises whatever its parts happen to raise
        return (
            f"{type(wrong).__name__}: {' '.join(str(wrong).split())}"[:120],
            np.split(x, [2, 2]),
            "must be sorted" in str(wrong),
        )


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)

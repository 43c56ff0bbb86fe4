"""R.split(x, [3, 6]) of 4 elements ends in std::bad_alloc (apache/tvm issue 20307).

Its type says that the parts have 3, 1 and 0 elements, as in NumPy; the kernel computes their sizes without that limit,
so one is negative.
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
    def main(x: R.Tensor(("n",), "float32")):
        y = R.split(x, [3, 6])
        return y


def case():
    x = np.arange(4, dtype="float32")
    try:
        given = compiled(Split, x)
    except Exception as wrong:  # noqa: BLE001  TVM raises whatever its parts happen to raise
        return f"{type(wrong).__name__}: {wrong}".splitlines()[-1], np.split(x, [3, 6]), True
    return given, np.split(x, [3, 6]), [len(g) for g in given] != [3, 1, 0]


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)

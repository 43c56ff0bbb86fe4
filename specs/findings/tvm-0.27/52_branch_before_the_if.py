"""The frontend's If computes both branches, but for the last node of each, in front of it: a division by 0 in the
branch that is not taken ends the process with SIGFPE.

If: 'Graph to run if condition is false', which it is not. `R.divide` stands in front of the `if` in what the frontend
makes.
"""

import subprocess
import sys

import numpy as np
import onnx.parser
import tvm
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx


def compiled(mod, *arguments):
    """What `main` gives, compiled for the CPU by `tvm.compile` as it stands."""
    machine = relax.VirtualMachine(tvm.compile(mod, tvm.target.Target("llvm")), tvm.cpu())
    result = machine["main"](*map(tvm.runtime.tensor, arguments))
    return result.numpy() if hasattr(result, "numpy") else [r.numpy() for r in result]


MODEL = """
<ir_version: 10, opset_import: ["" : 20]>
g (bool c, int32 x, int32 y) => (int32 z) {
    z = If (c) <
        then_branch = t () => (int32 p) { p = Identity (x) },
        else_branch = e () => (int32 q) { d = Div (x, y) q = Neg (d) }
    >
}
"""
INPUTS = (np.array(True), np.array(7, np.int32), np.array(0, np.int32))
RIGHT = np.array(7, np.int32)


def case():
    if "--run" in sys.argv:
        return compiled(from_onnx(onnx.parser.parse_model(MODEL), keep_params_in_input=False), *INPUTS), RIGHT, False
    ended = subprocess.run([sys.executable, __file__, "--run"], capture_output=True, check=False).returncode
    return f"the process ends with {ended}", RIGHT, ended < 0


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows or "--run" in sys.argv else 1)

"""The frontend's Cast of 3 to float8e8m0 is 2, must be 4.

Cast: 'It only applies to casting to float8e8m0 and is `up` by default', said of round_mode; 'up' is away from zero.
TVM rounds halves to even.
"""

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
<ir_version: 10, opset_import: ["" : 24]>
g (float[1] x) => (float[1] y) {
    e = Cast <to = 24> (x)
    y = Cast <to = 1> (e)
}
"""
INPUTS = (np.array([3], np.float32),)
RIGHT = np.array([4], np.float32)


def case():
    given = compiled(from_onnx(onnx.parser.parse_model(MODEL), keep_params_in_input=False), *INPUTS)
    return given, RIGHT, not np.array_equal(given, RIGHT)


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)

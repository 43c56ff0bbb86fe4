"""The frontend's SpaceToDepth takes no notice of the mode CRD.

SpaceToDepth: '`mode` determines whether blocks are ordered depth-column-row (`DCR`, the default) or column-row-depth
(`CRD`)'. With CRD the four numbers of a channel come one after the other.
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
<ir_version: 10, opset_import: ["" : 28]>
g (float[1, 2, 2, 2] x) => (float[1, 8, 1, 1] y) { y = SpaceToDepth <blocksize = 2, mode = "CRD"> (x) }
"""
INPUTS = (np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2),)
RIGHT = np.arange(8, dtype=np.float32).reshape(1, 8, 1, 1)


def case():
    given = compiled(from_onnx(onnx.parser.parse_model(MODEL), keep_params_in_input=False), *INPUTS)
    return given, RIGHT, not np.array_equal(given, RIGHT)


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)

"""The frontend's ConvTranspose takes no notice of output_shape.

ConvTranspose: 'output_shape can also be explicitly specified in which case pads values are auto generated'.
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
<ir_version: 10, opset_import: ["" : 22]>
g (float[1, 1, 2] x, float[1, 1, 2] w) => (float[1, 1, 5] y) {
    y = ConvTranspose <strides = [2], output_shape = [5]> (x, w)
}
"""
INPUTS = (np.ones((1, 1, 2), np.float32), np.ones((1, 1, 2), np.float32))
RIGHT = np.array([[[1, 1, 1, 1, 0]]], np.float32)


def case():
    given = compiled(from_onnx(onnx.parser.parse_model(MODEL), keep_params_in_input=False), *INPUTS)
    return given, RIGHT, not np.array_equal(given, RIGHT)


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)

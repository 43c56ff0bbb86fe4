"""The frontend's mask of ONNX Dropout is of floats; ONNX says bool (Dropout-22, type constraint T2)."""

import sys

import numpy as np
import tvm
from onnx import TensorProto, helper
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx


def compiled(mod, *arguments):
    """What `main` gives, compiled for the CPU by `tvm.compile` as it stands."""
    machine = relax.VirtualMachine(tvm.compile(mod, tvm.target.Target("llvm")), tvm.cpu())
    result = machine["main"](*map(tvm.runtime.tensor, arguments))
    return result.numpy() if hasattr(result, "numpy") else [r.numpy() for r in result]


def case():
    of = helper.make_tensor_value_info
    nodes = [helper.make_node("Dropout", ["x"], ["y", "mask"])]
    inputs, results = (
        [of("x", TensorProto.FLOAT, [3])],
        [of("y", TensorProto.FLOAT, [3]), of("mask", TensorProto.BOOL, [3])],
    )
    model = helper.make_model(
        helper.make_graph(nodes, "g", inputs, results), opset_imports=[helper.make_opsetid("", 22)]
    )
    given = compiled(from_onnx(model), np.arange(3, dtype="float32"))[1].dtype
    return given, np.dtype(bool), given != np.dtype(bool)


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)

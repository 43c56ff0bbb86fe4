"""ToMixedPrecision fails on what the ONNX frontend makes of MatMul and Clip with a symbolic batch.

The frontend writes Clip as packed calls of tensor functions. The pass takes the callee for an operand: "Expected
TensorType, but got R.Callable". What it does not handle it should leave as it is.
"""

import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx


def case():
    of = helper.make_tensor_value_info
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Clip", ["m", "low", "high"], ["y"])]
    stored = [("w", np.ones((4, 4), "float32")), ("low", np.float32(0)), ("high", np.float32(6))]
    inputs, results = [of("x", TensorProto.FLOAT, ["n", 4])], [of("y", TensorProto.FLOAT, ["n", 4])]
    graph = helper.make_graph(nodes, "g", inputs, results, [numpy_helper.from_array(a, n) for n, a in stored])
    mod = from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
    try:
        given = relax.transform.ToMixedPrecision("float16")(mod).script()
    except Exception as wrong:  # noqa: BLE001  TVM raises whatever its parts happen to raise
        return f"{type(wrong).__name__}: {wrong}".splitlines()[-1], "a module", "Callable" in str(wrong)
    return given, "a module", False


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)

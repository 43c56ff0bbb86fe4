"""A deep, narrow model, steep or gentle, and programs that are it written otherwise.

Steep, errors grow so fast that no bound of the whole excludes anything; gentle, one does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from assay.verify.backends import backend, subject_of_model

Array = np.ndarray[Any, Any]
WIDTH, LAYERS = 6, 16


STEEP, GENTLE = 1.5, 0.05


def deep(scale: float = STEEP, inputs: tuple[str, ...] = ("x",), width: int = WIDTH) -> onnx.ModelProto:
    """Layers of h = sin(h @ w) * scale + h, and 1 / h of the last."""
    layers = LAYERS
    rng = np.random.default_rng(18)
    stored = [numpy_helper.from_array(np.array(scale, np.float32), "scale")]
    nodes: list[onnx.NodeProto] = []
    at = "x"
    for i in range(layers):
        stored.append(numpy_helper.from_array(rng.standard_normal((width, width)).astype(np.float32), f"w{i}"))
        nodes += [
            helper.make_node("MatMul", [at, f"w{i}"], [f"p{i}"], f"product{i}"),
            helper.make_node("Sin", [f"p{i}"], [f"t{i}"], f"bent{i}"),
            helper.make_node("Mul", [f"t{i}", "scale"], [f"s{i}"], f"scaled{i}"),
            helper.make_node("Add", [f"s{i}", at], [f"h{i}"], f"sum{i}"),
        ]
        at = f"h{i}"
    nodes.append(helper.make_node("Reciprocal", [at], ["y"], "last"))
    given = [helper.make_tensor_value_info(n, 1, [2, width]) for n in inputs]
    graph = helper.make_graph(nodes, "deep", given, [helper.make_tensor_value_info("y", 1, [2, width])], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def inputs() -> dict[str, Array]:
    return {"x": np.random.default_rng(3).standard_normal((2, WIDTH)).astype(np.float32)}


def tensors(model: onnx.ModelProto) -> dict[str, Array]:
    """Every tensor of a run on `inputs`."""
    subject = subject_of_model(model)
    return backend("numpy").prepare(subject, list(subject.tensors))(inputs())


def with_split_scale(model: onnx.ModelProto, layer: int, scale: float = STEEP) -> onnx.ModelProto:
    """The same with t * scale of a layer as t + t * (scale - 1), which no numbering of terms shows to be equal."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    made.graph.initializer.append(numpy_helper.from_array(np.array(scale - 1, np.float32), "less"))
    at = next(i for i, n in enumerate(made.graph.node) if n.name == f"scaled{layer}")
    del made.graph.node[at]
    made.graph.node.insert(at, helper.make_node("Mul", [f"t{layer}", "less"], ["part"], "part"))
    made.graph.node.insert(at + 1, helper.make_node("Add", [f"t{layer}", "part"], [f"s{layer}"], "whole"))
    return made

"""Operators that move and choose elements, with the inputs that decide shapes given as inputs: what ONNX's own cases
leave out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from assay.interp import graph
from assay.lower.frontends.onnx.model import import_onnx
from assay.semantics.errors import Invalid, Trap, Unsupported
from tests.models import single


def module(op: str, *inputs: Any, opset: int = 21, values: Mapping[int, Any] | None = None, **attrs: Any) -> Any:
    model = single(op, opset, [np.asarray(i) for i in inputs], attrs)
    return import_onnx(model, evaluate=graph.evaluate, values={f"x{k}": v for k, v in (values or {}).items()})


def run(made: Any, *inputs: Any) -> np.ndarray[Any, Any]:
    return next(iter(graph.run(made, {f"x{i}": np.asarray(v) for i, v in enumerate(inputs)}).values()))


def test_one_import_serves_all_sizes() -> None:
    """What is measured needs no values: one module, other data, other sizes."""
    x = np.array([1.0, 0.0, 2.0], np.float32)
    made = module("NonZero", x)
    assert run(made, x).tolist() == [[0, 2]]
    assert run(made, x * 0).tolist() == [[]]
    counted = module("Range", np.int64(0), np.int64(5), np.int64(2))
    assert run(counted, 0, 5, 2).tolist() == [0, 2, 4] and run(counted, 3, -4, -3).tolist() == [3, 0, -3]
    filled = module("ConstantOfShape", np.array([2, 3]))
    assert run(filled, np.array([0, 4])).shape == (0, 4)
    with pytest.raises(Trap, match=r"size.T1"):
        run(filled, np.array([2, -1]))


def test_a_settled_input_is_asserted() -> None:
    x, axis = np.ones(2, np.float32), np.array([1])
    with pytest.raises(Unsupported, match=r"onnx.C13"):
        module("Unsqueeze", x, axis)
    made = module("Unsqueeze", x, axis, values={1: axis})
    assert run(made, x, axis).shape == (2, 1)
    with pytest.raises(Trap, match=r"assert_op.T1"):
        run(made, x, np.array([0]))
    with pytest.raises(Invalid, match=r"onnx.C3"):
        module("Unsqueeze", x, axis, values={1: np.array([1.0])})


def test_values_that_nothing_asks_for_are_not_asserted() -> None:
    x = np.ones(2, np.float32)
    made = module("Add", x, x, values={0: x, 1: x})
    assert run(made, x, x + 1).tolist() == [3, 3]


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "label"),
    [
        ("GatherElements", [np.ones((2, 2)), np.ones(2, np.int64)], {}, "onnx.C12"),
        ("GatherND", [np.ones((2, 2)), np.ones((2, 1), np.int64)], {"batch_dims": 2}, "onnx.C12"),
        ("GatherND", [np.ones(2), np.ones((2, 2), np.int64)], {}, "gather_nd.C1"),
        ("ScatterND", [np.ones(2), np.ones((3, 1), np.int64), np.ones(2)], {}, "scatter_nd.C3"),
        ("ScatterND", [np.ones(2), np.ones((2, 2), np.int64), np.ones(2)], {}, "scatter_nd.C1"),
        ("ScatterND", [np.ones(2), np.ones((2, 1), np.int64), np.ones(2)], {"reduction": "mean"}, "scatter_nd.C2"),
        ("Compress", [np.ones(2), np.ones((1, 2), bool)], {}, "onnx.C12"),
        ("EyeLike", [np.ones(2, np.float32)], {}, "onnx.C12"),
        ("ReverseSequence", [np.ones((2, 2)), np.ones(2, np.int64)], {"time_axis": 1, "batch_axis": 1}, "onnx.C12"),
        ("NonMaxSuppression", [np.ones((2, 4), np.float32), np.ones((1, 1, 2), np.float32)], {}, "onnx.C12"),
    ],
)
def test_invalid(op: str, inputs: list[Any], attrs: dict[str, Any], label: str) -> None:
    with pytest.raises(Invalid, match=re.escape(f"[{label}]")):
        module(op, *inputs, **attrs)


def test_an_index_outside_traps() -> None:
    x, places = np.ones((2, 3), np.float32), np.array([[0, 2]])
    made = module("GatherElements", x, places)
    with pytest.raises(Trap, match=r"gather_nd.T1"):
        run(made, x, np.array([[0, -4]]))


def test_trees_that_go_in_circles() -> None:
    def stored(of: int, *values: float) -> TensorProto:
        return helper.make_tensor("t", of, [len(values)], values)

    attrs = {
        "tree_roots": [0],
        "n_targets": 1,
        "nodes_featureids": [0],
        "nodes_modes": stored(TensorProto.UINT8, 0),
        "nodes_splits": stored(TensorProto.FLOAT, 1.0),
        "nodes_truenodeids": [0],
        "nodes_trueleafs": [0],
        "nodes_falsenodeids": [0],
        "nodes_falseleafs": [1],
        "leaf_targetids": [0],
        "leaf_weights": stored(TensorProto.FLOAT, 1.0),
    }
    node = helper.make_node("TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", **attrs)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 1])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 1])
    sets = [helper.make_opsetid("ai.onnx.ml", 5), helper.make_opsetid("", 21)]
    model = helper.make_model(helper.make_graph([node], "g", [x], [y]), opset_imports=sets, ir_version=10)
    with pytest.raises(Invalid, match=r"circle \[onnx.C12\]"):
        import_onnx(model, evaluate=graph.evaluate)

"""Gradient of ONNX's training domain, against differences."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, helper

from assay.interp import graph
from assay.lower.frontends.onnx.model import import_onnx
from assay.lower.frontends.onnx.operators.gradient import RULES
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.graph import Call
from assay.semantics.operator import Operator
from assay.semantics.rules import check
from assay.semantics.walk import post_order
from tests.models import model

D = np.float64
A = np.array([[0.5, 1.5, 2.0], [0.25, 3.0, 1.0]], D)
B = np.array([0.75, 1.25, 0.5], D)


def built(nodes: Sequence[NodeProto], xs: Sequence[str], at: Sequence[str], **attrs: Any) -> Any:
    last = helper.make_node(
        "Gradient", at, [f"d{x}" for x in xs], domain="ai.onnx.preview.training", xs=list(xs), y="y", **attrs
    )
    inputs = {n: (D, v.shape) for n, v in (("a", A), ("b", B))}
    proto = model(
        [*nodes, last], inputs, {"y": (D, None), **{f"d{x}": (D, None) for x in xs}},
        {"axes": np.array([1]), "shape": np.array([3, 2]), "yes": np.array([True, False, True]),
            "wide": np.array([2, 2, 3])},
        opset=20, opsets={"ai.onnx.preview.training": 1},
    )  # fmt: skip
    module = import_onnx(proto, evaluate=graph.evaluate)
    check(module)
    return module


def node(op: str, *inputs: str, to: str = "y", **attrs: Any) -> NodeProto:
    return helper.make_node(op, list(inputs), [to], **attrs)


CHAINS: dict[str, list[NodeProto]] = {
    "add": [node("Add", "a", "b")],
    "subtract": [node("Sub", "b", "a")],
    "multiply": [node("Mul", "a", "b")],
    "divide": [node("Div", "b", "a")],
    "negative": [node("Neg", "a")],
    **{n: [node(op, "a")] for n, op in (
        ("exp", "Exp"), ("log", "Log"), ("sqrt", "Sqrt"), ("sin", "Sin"), ("cos", "Cos"), ("tanh", "Tanh"),
        ("sigmoid", "Sigmoid"),
    )},
    "nn.relu": [node("Sub", "a", "b", to="h"), node("Relu", "h")],
    "where": [node("Mul", "a", "a", to="h"), node("Where", "yes", "h", "b")],
    "matmul": [node("Transpose", "a", to="t", perm=[1, 0]), node("Mul", "a", "b", to="h"), node("MatMul", "h", "t")],
    "sum": [node("Mul", "a", "b", to="h"), node("ReduceSum", "h", "axes", keepdims=0)],
    "mean": [node("Mul", "a", "a", to="h"), node("ReduceMean", "h", "axes", keepdims=1)],
    "permute_dims": [node("Transpose", "a", to="t", perm=[1, 0]), node("Mul", "t", "t")],
    "reshape": [node("Reshape", "a", "shape", to="t"), node("Mul", "t", "t")],
    "expand_dims": [node("Unsqueeze", "b", "axes", to="t"), node("Mul", "t", "b")],
    "squeeze": [
        node("Unsqueeze", "b", "axes", to="t"), node("Mul", "t", "t", to="h"), node("Squeeze", "h", "axes", to="k"),
        node("Mul", "k", "b"),
    ],
    "broadcast_to": [node("Expand", "a", "wide", to="h"), node("Mul", "h", "b")],
}  # fmt: skip
CHAINS["astype"] = [
    helper.make_node("Cast", ["a"], ["h"], to=1), helper.make_node("Cast", ["h"], ["k"], to=11), node("Mul", "k", "b")
]  # fmt: skip


def test_every_rule_has_a_chain() -> None:
    assert CHAINS.keys() == RULES.keys()


@pytest.mark.parametrize("name", CHAINS)
def test_agrees_with_differences(name: str) -> None:
    module = built(CHAINS[name], ["a", "b"], ["a", "b"])
    called = {n.op.name for n in post_order(module.main) if isinstance(n, Call) and isinstance(n.op, Operator)}
    assert name in called
    found = graph.run(module, {"a": A, "b": B})
    step = 1e-2 if name == "astype" else 1e-5

    def value(a: Any, b: Any) -> float:
        return float(graph.run(module, {"a": a, "b": b})["y"].sum())

    for x, own in (("a", A), ("b", B)):
        assert found[f"d{x}"].shape == own.shape and found[f"d{x}"].dtype == D
        for place in np.ndindex(own.shape):
            off = np.zeros_like(own)
            off[place] = step
            more, less = ((A + k * off, B) if x == "a" else (A, B + k * off) for k in (1, -1))
            wanted = (value(*more) - value(*less)) / (2 * step)
            assert abs(found[f"d{x}"][place] - wanted) < 1e-4, (x, place)


def test_the_operands_say_where() -> None:
    """y = a * h with h = a + b, in a at 2a; what is in `zs` is held; a tensor on the way is a variable too."""
    nodes = [node("Add", "a", "b", to="h"), node("Mul", "a", "h"), node("Add", "a", "a", to="twice")]
    found = graph.run(built(nodes, ["a"], ["twice", "b"], zs=["b"]), {"a": A, "b": B})
    np.testing.assert_allclose(found["da"], 4 * A + B)
    found = graph.run(built(nodes, ["h"], ["h", "a"], zs=["a"]), {"a": A, "b": B})
    np.testing.assert_allclose(found["dh"], A)
    found = graph.run(built([node("Mul", "a", "a")], ["b"], ["b"]), {"a": A, "b": B})
    np.testing.assert_array_equal(found["db"], np.zeros(3))


@pytest.mark.parametrize(
    ("nodes", "xs", "at", "label"),
    [
        ([node("Add", "a", "b")], ["a", "b"], ["a"], "onnx.C12"),
        ([node("Add", "a", "b")], ["a"], ["b"], "onnx.C12"),
        ([node("Add", "a", "b")], ["c"], ["a"], "onnx.C4"),
        ([node("Equal", "a", "b")], ["a"], ["a"], "onnx.C12"),
    ],
)
def test_invalid(nodes: list[NodeProto], xs: list[str], at: list[str], label: str) -> None:
    with pytest.raises(Invalid, match=re.escape(f"[{label}]")):
        built(nodes, xs, at)


def test_an_operator_without_a_rule_is_named() -> None:
    with pytest.raises(Unsupported, match="the gradient of floor"):
        built([node("Floor", "a")], ["a"], ["a"])
    with pytest.raises(Unsupported, match="matrices are wanted"):
        built([node("MatMul", "a", "b")], ["a"], ["a"])

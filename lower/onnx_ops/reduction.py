"""Reductions of ONNX (specs/lower.md, "Import").

The axes are an attribute before version 13 (ReduceSum) or 18 (the others), and an operand since. No axes means all of
them, unless `noop_with_empty_axes` says none.
"""

from __future__ import annotations

from assay.lower.onnx_ops.node import Node, Rule, tensor
from assay.semantics.graph import Expr
from assay.semantics.ops.common import normalize_axes
from assay.semantics.ops.sizes import product


def axes_of(node: Node) -> tuple[int, ...]:
    """The axes that are reduced, counted from the front."""
    rank = tensor(node[0]).ndim
    given = node.attrs["axes"] if "axes" in node.attrs else node.ints(1) if node.has(1) else ()
    if not given:
        return () if node.attrs.get("noop_with_empty_axes") else tuple(range(rank))
    return normalize_axes(str(node), given, rank)


def _reduced(op: str, node: Node) -> Expr:
    return node.call(op, node[0], axis=axes_of(node), keepdims=bool(node.attrs["keepdims"]))


def mean(node: Node) -> Expr:
    """Of integers, the quotient of sum and count, rounded to zero as in ONNX Runtime; the documentation is silent."""
    x = tensor(node[0])
    if x.dtype.is_float:
        return _reduced("mean", node)
    count = product([x.shape[a] for a in axes_of(node)])
    if not isinstance(count, int):
        raise node.unsupported(f"the number of elements that are averaged is {count}; give the symbolic dims values")
    return node.call("truncate_divide", _reduced("sum", node), node.constant(count, x.dtype))


def _extreme(op: str) -> Rule:
    """Of no elements the result is the dtype's lowest or highest value, an infinity where it has one."""

    def rule(node: Node) -> Expr:
        x = tensor(node[0])
        axes = axes_of(node)
        keep = bool(node.attrs["keepdims"])
        if any(isinstance(x.shape[a], int) and x.shape[a] == 0 for a in axes):
            shape = tuple(1 if a in axes else d for a, d in enumerate(x.shape) if keep or a not in axes)
            infinite = float("-inf" if op == "max" else "inf")
            lowest = infinite if x.dtype.is_float else x.dtype.min if op == "max" else x.dtype.max
            return node.call("full", shape=shape, fill_value=lowest, dtype=x.dtype.name)
        return node.call(op, node[0], axis=axes, keepdims=keep)

    return rule


TABLE: dict[str, Rule] = {
    "ReduceMax": _extreme("max"),
    "ReduceMean": mean,
    "ReduceMin": _extreme("min"),
    "ReduceProd": lambda node: _reduced("prod", node),
    "ReduceSum": lambda node: _reduced("sum", node),
}

"""Searches in boundaries that ascend, as PyTorch and TVM have them (specs/semantics.md, "Text")."""

from __future__ import annotations

from typing import Any, Protocol

from assay.semantics import graph
from assay.semantics.dtypes import INT64
from assay.semantics.graph import Expr
from assay.semantics.types import TensorType


class Caller(Protocol):
    """Makes calls of our operators."""

    def call(self, op: str, *args: Expr, **attrs: Any) -> Expr:
        """A call of an operator."""
        ...


def searched(make: Caller, edges: Expr, x: Expr, right: bool) -> Expr:
    """How many of the boundaries along the last axis of `edges` are below an element of `x`, or with `right` at most
    it, as int64; NaN is above all numbers. Both have one dtype, and `x` a last axis of 1 for the boundaries."""
    assert isinstance(x.type, TensorType)
    below = make.call("logical_not", make.call("greater" if right else "greater_equal", edges, x))
    return make.call("sum", make.call("astype", below, dtype=INT64.name), axis=(x.type.ndim - 1,), keepdims=False)


def ascending(make: Caller, edges: Expr) -> Expr | None:
    """Whether the elements along the last axis ascend, those that are equal among them: what comes of a search is
    undefined where they do not. None where they are known to."""
    assert isinstance(edges.type, TensorType)
    axis, count = edges.type.ndim - 1, edges.type.shape[-1]
    if isinstance(count, int) and count < 2:
        return None
    if isinstance(edges, graph.Constant) and bool((edges.data[..., :-1] <= edges.data[..., 1:]).all()):
        return None
    first = make.call("strided_slice", edges, axes=(axis,), begin=(0,), end=(-1,), strides=(1,))
    second = make.call("strided_slice", edges, axes=(axis,), begin=(1,), end=(count,), strides=(1,))
    falls = make.call("logical_not", make.call("less_equal", first, second))
    count_of = make.call("sum", make.call("astype", falls, dtype=INT64.name), axis=None, keepdims=False)
    return make.call("equal", count_of, graph.constant(INT64.numpy.type(0)))

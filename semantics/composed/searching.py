"""Searches in boundaries that ascend, as PyTorch and TVM have them (specs/semantics.md, "Text")."""

from __future__ import annotations

from typing import Any, Protocol

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

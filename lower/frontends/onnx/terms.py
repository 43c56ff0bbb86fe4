"""Formulas over tensors, written as arithmetic (specs/lower.md, "Import").

Coordinates and weights of resized, sampled and pooled images are long formulas of elementwise operators. A `Term` is an
expression with Python's operators; a Python number beside one becomes a constant of its dtype.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

from assay.lower.frontends.onnx.node import MOST_ELEMENTS, Node, tensor
from assay.semantics.dtypes import FLOAT64, INT64, DType
from assay.semantics.graph import Expr
from assay.semantics.scalar import Dim
from assay.semantics.types import TensorType


@dataclass(frozen=True, eq=False)
class Term:
    """A tensor of a formula; operands broadcast by NumPy's rule and have one dtype."""

    node: Node
    expr: Expr

    @property
    def type(self) -> TensorType:
        return tensor(self.expr)

    def _call(self, op: str, *others: Amount, **attrs: Any) -> Term:
        return Term(self.node, self.node.call(op, self.expr, *(self.like(o) for o in others), **attrs))

    def like(self, other: Amount) -> Expr:
        """Another operand as an expression of this one's dtype."""
        return other.expr if isinstance(other, Term) else self.node.constant(other, self.type.dtype)

    def __add__(self, other: Amount) -> Term:
        return self._call("add", other)

    def __sub__(self, other: Amount) -> Term:
        return self._call("subtract", other)

    def __mul__(self, other: Amount) -> Term:
        return self._call("multiply", other)

    def __truediv__(self, other: Amount) -> Term:
        return self._call("divide", other)

    def __rsub__(self, other: float) -> Term:
        return Term(self.node, self.like(other)) - self

    def __rtruediv__(self, other: float) -> Term:
        return Term(self.node, self.like(other)) / self

    def __radd__(self, other: float) -> Term:
        return self + other

    def __rmul__(self, other: float) -> Term:
        return self * other

    def __lt__(self, other: Amount) -> Term:
        return self._call("less", other)

    def __le__(self, other: Amount) -> Term:
        return self._call("less_equal", other)

    def __gt__(self, other: Amount) -> Term:
        return self._call("greater", other)

    def __ge__(self, other: Amount) -> Term:
        return self._call("greater_equal", other)

    def equal(self, other: Amount) -> Term:
        return self._call("equal", other)

    def __and__(self, other: Term) -> Term:
        return self._call("logical_and", other)

    def __or__(self, other: Term) -> Term:
        return self._call("logical_or", other)

    def __abs__(self) -> Term:
        return self._call("abs")

    def floor(self) -> Term:
        return self._call("floor")

    def ceil(self) -> Term:
        return self._call("ceil")

    def round(self) -> Term:
        """To the nearest whole number, halves to the even one."""
        return self._call("round")

    def divided(self, by: Amount) -> Term:
        """Integers, rounded down."""
        return self._call("floor_divide", by)

    def at_least(self, other: Amount) -> Term:
        return self._call("maximum", other)

    def at_most(self, other: Amount) -> Term:
        return self._call("minimum", other)

    def chosen(self, where: Term, other: Amount) -> Term:
        """This where the condition holds, else the other."""
        return Term(self.node, self.node.call("where", where.expr, self.expr, self.like(other)))

    def cast(self, to: DType) -> Term:
        return Term(self.node, self.node.cast(self.expr, to))

    def shaped(self, *shape: Dim) -> Term:
        return Term(self.node, self.node.shaped(self.expr, shape))

    def stretched(self, *shape: Dim) -> Term:
        return self._call("broadcast_to", shape=shape)

    def moved(self, axes: Sequence[int]) -> Term:
        """With the axes in another order."""
        return self._call("permute_dims", axes=tuple(axes))

    def sum(self, *axes: int, keep: bool = False) -> Term:
        return self._call("sum", axis=axes, keepdims=keep)

    def max(self, *axes: int) -> Term:
        return self._call("max", axis=axes, keepdims=False)

    def picked(self, index: int, axis: int) -> Term:
        """The slice at a place of an axis, which goes."""
        return Term(self.node, self.node.call("take", self.expr, self.node.constant(index, INT64), axis=axis))

    def folded(self) -> Term:
        """Its value, where it depends on no input and is not large: computed by the import, in the run it is exact."""
        of, builder = self.type, self.node.builder
        if not builder.is_closed(self.expr) or not of.is_static or prod(of.static_shape) > MOST_ELEMENTS:
            return self
        value = builder.value(self.expr)
        return self if value is None else Term(self.node, self.node.constant(value, of.dtype))


Amount: TypeAlias = Term | float
"""What a formula may hold: a tensor, or a number."""


def line(node: Node, size: Dim, of: DType = FLOAT64) -> Term:
    """0, 1, 2, ..., `size` of them."""
    return Term(node, node.call("arange", size=size, dtype=of.name))


def amount(node: Node, size: Dim, of: DType = FLOAT64) -> Amount:
    """A size as a number of a formula, measured by the run where it is a symbol."""
    if isinstance(size, int):
        return float(size)
    shape = node.call("shape_of", line(node, size, INT64).expr)
    return Term(node, node.cast(node.call("take", shape, node.constant(0, INT64), axis=0), of))

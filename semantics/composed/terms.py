"""Formulas over tensors, written as arithmetic (specs/semantics.md, "Text").

Coordinates and weights of resized, sampled and pooled images are long formulas of elementwise operators. A `Term` is an
expression with Python's operators; a Python number beside one becomes a constant of its dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from assay.semantics.composed.maker import Maker, tensor_of
from assay.semantics.dtypes import FLOAT64, INT64, DType
from assay.semantics.graph import Expr
from assay.semantics.scalar import Dim
from assay.semantics.types import TensorType


def _method(op: str) -> Callable[..., Term]:
    """A method that applies an operator to the term and further operands."""

    def method(self: Term, *others: Amount) -> Term:
        return Term(self.node, self.node.call(op, self.expr, *map(self._operand, others)))

    return method


@dataclass(frozen=True, eq=False)
class Term:
    """A tensor of a formula; operands broadcast by NumPy's rule and have one dtype."""

    node: Maker
    expr: Expr

    @property
    def type(self) -> TensorType:
        """The type of the tensor."""
        return tensor_of(self.expr)

    def number(self, value: float) -> Term:
        """A number of this one's dtype."""
        return Term(self.node, self.node.constant(value, self.type.dtype))

    def __rsub__(self, other: float) -> Term:
        return self.number(other) - self

    def __rtruediv__(self, other: float) -> Term:
        return self.number(other) / self

    __add__ = __radd__ = _method("add")
    __sub__ = _method("subtract")
    __mul__ = __rmul__ = _method("multiply")
    __truediv__ = _method("divide")
    __lt__ = _method("less")
    __le__ = _method("less_equal")
    __gt__ = _method("greater")
    __ge__ = _method("greater_equal")
    __and__ = _method("logical_and")
    __or__ = _method("logical_or")
    power = _method("power")
    sqrt = _method("sqrt")
    __neg__ = _method("negative")
    __abs__ = _method("abs")
    equal = _method("equal")
    floor = _method("floor")
    ceil = _method("ceil")
    round = _method("round")
    """To the nearest whole number, halves to the even one."""
    divided = _method("floor_divide")
    """Integers, rounded down."""
    at_least = _method("maximum")
    at_most = _method("minimum")

    def chosen(self, where: Term, other: Amount) -> Term:
        """This where the condition holds, else the other."""
        return Term(self.node, self.node.call("where", where.expr, self.expr, self._operand(other)))

    def cast(self, to: DType) -> Term:
        """Convert to a dtype."""
        return Term(self.node, self.node.cast(self.expr, to))

    def shaped(self, *shape: Dim) -> Term:
        """Reshape; the number of elements stays."""
        return Term(self.node, self.node.shaped(self.expr, shape))

    def stretched(self, *shape: Dim) -> Term:
        """Broadcast to a shape."""
        return Term(self.node, self.node.call("broadcast_to", self.expr, shape=shape))

    def moved(self, axes: Sequence[int]) -> Term:
        """With the axes in another order."""
        return Term(self.node, self.node.call("permute_dims", self.expr, axes=tuple(axes)))

    def sum(self, *axes: int, keep: bool = False) -> Term:
        """Sum over axes, which stay with size 1 if `keep`."""
        return Term(self.node, self.node.call("sum", self.expr, axis=axes, keepdims=keep))

    def max(self, *axes: int) -> Term:
        """The maximum over axes, which go."""
        return Term(self.node, self.node.call("max", self.expr, axis=axes, keepdims=False))

    def picked(self, index: int, axis: int) -> Term:
        """The slice at a place of an axis, which goes."""
        return Term(self.node, self.node.call("take", self.expr, self.node.constant(index, INT64), axis=axis))

    def _operand(self, of: Amount) -> Expr:
        return of.expr if isinstance(of, Term) else self.node.constant(of, self.type.dtype)


Amount: TypeAlias = Term | float
"""What a formula may hold: a tensor, or a number."""


def line(node: Maker, size: Dim, of: DType = FLOAT64) -> Term:
    """0, 1, 2, ..., `size` of them."""
    return Term(node, node.call("arange", size=size, dtype=of.name))


def amount_of(node: Maker, size: Dim, of: DType = FLOAT64) -> Amount:
    """A size as a number of a formula, measured by the run where it is a symbol."""
    if isinstance(size, int):
        return float(size)
    shape = Term(node, node.call("shape_of", line(node, size, INT64).expr))
    return shape.picked(0, 0).cast(of)

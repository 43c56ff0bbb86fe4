"""Who makes the calls of a composition (specs/semantics.md, "Text"): the reader of an ONNX node, of a Relax call, or of
a Relay call, which all give them the place of what is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from assay.semantics.dtypes import DType
from assay.semantics.errors import Invalid
from assay.semantics.graph import Expr
from assay.semantics.scalar import Dim
from assay.semantics.types import TensorType


class Maker(Protocol):
    """Makes calls of our operators; each has the span of what is read."""

    def call(self, op: str, *args: Expr, **attrs: Any) -> Expr:
        """A call of an operator."""
        ...

    def constant(self, data: Any, of: DType, /) -> Expr:
        """A constant of a dtype."""
        ...

    def shaped(self, x: Expr, shape: Sequence[Dim], /) -> Expr:
        """`x` in another shape; `x` itself where it has that shape already."""
        ...

    def cast(self, x: Expr, to: DType, /) -> Expr:
        """`x` in another dtype; `x` itself where it has that dtype already."""
        ...

    def wrong(self, message: str, /) -> Invalid:
        """What to raise where operands do not fit."""
        ...


def tensor_of(x: Expr) -> TensorType:
    """The type of an operand, which is a tensor."""
    assert isinstance(x.type, TensorType)
    return x.type


def numbered(make: Maker, x: Expr, axis: int) -> Expr:
    """The numbers 0, 1, ... along an axis of `x`, in a shape that broadcasts to it."""
    of = tensor_of(x)
    line = make.call("arange", size=of.shape[axis], dtype="int64")
    return make.shaped(line, (of.shape[axis], *(1,) * (of.ndim - 1 - axis)))

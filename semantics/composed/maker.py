"""Who makes the calls of a composition (specs/semantics.md, "Text"): the reader of an ONNX node, of a Relax call, or of
a Relay call, which all give them the place of what is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from assay.semantics import graph
from assay.semantics.dtypes import DType
from assay.semantics.errors import Invalid
from assay.semantics.graph import Constant, Expr
from assay.semantics.operator import Operator
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


@dataclass(frozen=True)
class Folding:
    """Makes constants where all operands are known, as places and weights of axes whose sizes are numbers; else what
    another makes."""

    maker: Maker

    def call(self, op: str, *args: Expr, **attrs: Any) -> Expr:
        """A call of an operator, or its value."""
        made = graph.call(op, *args, **attrs)
        of = made.type
        if not all(isinstance(a, Constant) for a in args) or not isinstance(of, TensorType) or not of.is_static:
            return self.maker.call(op, *args, **attrs)
        operator, data = made.op, [a.data for a in args if isinstance(a, Constant)]
        assert isinstance(operator, Operator)
        with np.errstate(all="ignore"):
            return self.constant(operator.value(made.attrs, *data), of.dtype)

    def constant(self, data: Any, of: DType) -> Expr:
        """A constant of a dtype."""
        return self.maker.constant(data, of)

    def shaped(self, x: Expr, shape: Sequence[Dim]) -> Expr:
        """`x` in another shape."""
        known = isinstance(x, Constant) and all(isinstance(d, int) for d in shape)
        return self.call("reshape", x, shape=tuple(shape)) if known else self.maker.shaped(x, shape)

    def cast(self, x: Expr, to: DType) -> Expr:
        """`x` in another dtype."""
        same = tensor_of(x).dtype is to
        return self.call("astype", x, dtype=to.name) if isinstance(x, Constant) and not same else self.maker.cast(x, to)

    def wrong(self, message: str) -> Invalid:
        """What to raise where operands do not fit."""
        return self.maker.wrong(message)


def tensor_of(x: Expr) -> TensorType:
    """The type of an operand, which is a tensor."""
    assert isinstance(x.type, TensorType)
    return x.type


def numbered(make: Maker, x: Expr, axis: int) -> Expr:
    """The numbers 0, 1, ... along an axis of `x`, in a shape that broadcasts to it."""
    of = tensor_of(x)
    line = make.call("arange", size=of.shape[axis], dtype="int64")
    return make.shaped(line, (of.shape[axis], *(1,) * (of.ndim - 1 - axis)))

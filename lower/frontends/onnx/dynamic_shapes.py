"""What only a run knows, and shapes depend on (specs/lower.md, "Import").

Two answers. A vector of sizes is *measured*: a let takes it as a shape (rule M4.8), and the shape's dims are symbols
that everything inside the let may use. What cannot be a symbol, such as an axis or a number below zero, is *settled*:
the caller says what an input of the model holds, the import goes on with that value, and the module asserts it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np

from assay.semantics import graph
from assay.semantics.dtypes import INT64, UINT8
from assay.semantics.errors import Invalid
from assay.semantics.graph import Constant, Expr, Var, free_variables
from assay.semantics.scalar import Dim, Var as Symbol
from assay.semantics.types import MOST_AXES, ShapeType, TensorType, Type
from assay.semantics.walk import rewrite

Array = np.ndarray[Any, Any]

MOST_SETTLED = 1024
"""An input of more elements than this decides no shape; its value is data."""

MOST_TEXTS = 1 << 16
"""But there may be so many strings."""

MOST_BYTES = 1 << 24
"""But an encoded image may have so many bytes."""


class Runs:
    """The values of inputs that the caller gives, those that were used, and the lets that wait for their body."""

    def __init__(
        self, evaluate: Callable[[Expr], Array], values: Mapping[str, Array], only_sizes: bool = False
    ) -> None:
        self._evaluate = evaluate
        self._only_sizes = only_sizes
        self._values = dict(values)
        self._given: dict[Var, Expr] = {}
        self._used: dict[Var, Expr] = {}
        self._lets: list[tuple[Var, Expr]] = []
        self._count = 0

    def parameter(self, param: Var, name: str, is_text: bool = False) -> None:
        """A parameter of the module, of that name in the model. Invalid (onnx.C3) where its value does not fit."""
        of = param.type
        if name not in self._values or not isinstance(of, TensorType):
            return
        value = np.asarray(self._values[name])
        fits = value.dtype == of.dtype.numpy and value.ndim == of.ndim
        if not fits or any(isinstance(d, int) and d != n for d, n in zip(of.shape, value.shape, strict=True)):
            if self._only_sizes:
                return  # whoever runs the module says so
            raise Invalid(
                f"input {name!r} is {of}; the value given for it has shape {value.shape} and dtype {value.dtype}",
                label="onnx.C3",
            )
        most = MOST_TEXTS if is_text else MOST_BYTES if of.dtype is UINT8 else MOST_SETTLED
        if value.size <= most and of.is_static:
            self._given[param] = graph.constant(value)

    def settled(self, expr: Expr, most: int, sizes: bool) -> Array | None:
        """The value of an expression over inputs whose values are given; they are asserted then. None where it has
        others, a size that is a symbol, or more than `most` elements; and for all but `sizes` where only these are
        settled."""
        if self._only_sizes and not sizes:
            return None
        free = free_variables(expr)
        if not free or any(v not in self._given for v in free):
            return None
        of = expr.type
        if not isinstance(of, TensorType) or not of.is_static or prod(of.static_shape) > most:
            return None
        self._used.update((v, self._given[v]) for v in free)
        return self._evaluate(rewrite(expr, lambda e: self._given.get(e, e) if isinstance(e, Var) else e))

    @property
    def used(self) -> list[str]:
        """The inputs that were settled."""
        return [param.name for param in self._used]

    def measured(self, vector: Expr, name: str) -> tuple[Dim, ...] | None:
        """The elements of a vector of int64 as symbols; None where it is no such vector, or longer than a shape can be.
        A run in which one is negative traps (size.T1)."""
        of = vector.type
        if not isinstance(of, TensorType) or of.dtype is not INT64 or of.ndim != 1 or not of.is_static:
            return None
        if of.static_shape[0] > MOST_AXES:
            return None
        self._count += 1
        name = f"{name}_{self._count}"
        symbols = tuple(Symbol(f"{name}_{i}") for i in range(of.static_shape[0]))
        cast = graph.match_cast(vector, ShapeType(symbols), vector.span)
        self._lets.append((graph.var(name, cast.type), cast))
        return symbols

    def named(self, value: Expr) -> Var:
        """A name for a value: it is evaluated once, here, and what follows may use the sizes in its type."""
        self._count += 1
        self._lets.append((graph.var(f"value_{self._count}", value.type), value))
        return self._lets[-1][0]

    def demand(self, check: Expr) -> None:
        """An assertion that stands before what follows."""
        self._count += 1
        self._lets.append((graph.var(f"checked_{self._count}", check.type), check))

    @property
    def types(self) -> list[Type]:
        """The types of what has a name where the next node is made."""
        return [var.type for var, _ in self._lets]

    def drop(self, mark: int) -> None:
        """Forget the lets since `mark`, with the body that asked for them."""
        del self._lets[mark:]

    @property
    def mark(self) -> int:
        """Where the lets of a body begin: take it before its nodes are made."""
        return len(self._lets)

    def around(self, body: Expr, mark: int) -> Expr:
        """The body inside the lets that its nodes asked for since `mark`."""
        for var, value in reversed(self._lets[mark:]):
            body = graph.let(var, value, body)
        del self._lets[mark:]
        return body

    def asserted(self, body: Expr) -> Expr:
        """The body after the assertions that settled inputs hold what was taken."""
        for param, value in reversed(list(self._used.items())):
            other = graph.call("not_equal", param, value)
            # a NaN where a NaN was taken is what was taken
            if isinstance(value, Constant) and np.isnan(value.data.astype(np.float64)).any():
                both = graph.call("logical_and", *(graph.call("not_equal", x, x) for x in (param, value)))
                other = graph.call("logical_and", other, graph.call("logical_not", both))
            differs = graph.call("astype", other, dtype="int64")
            count = graph.call("sum", differs, axis=None, keepdims=False)
            same = graph.call("equal", count, graph.constant(np.array(0, np.int64)))
            check = graph.assert_op(same, format=f"input {param.name} does not hold what the import took for it")
            body = graph.let(graph.var(f"{param.name}_settled", check.type), check, body)
        return body

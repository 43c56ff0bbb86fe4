"""`SymbolicElement`: one element of an operand, of which nothing is known (specs/semantics.md, "Index notation").

The value of an elementwise operator is written with NumPy's functions, so it runs on such elements as on arrays of no
axes, and gives the term of the result's element. What it asks of its data is answered with yes: where it takes a
quicker way for data without a zero, that is the way for all data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from assay.semantics.arrays import OF_UFUNCS, Array, ArrayFace
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Crash
from assay.semantics.operator import Attrs, Operator
from assay.semantics.scalar import Expr, apply, cast, const, reinterpret, select
from assay.semantics.scalar.intrinsics import INTRINSICS

EXTREMES: dict[Any, str] = {np.maximum: "max", np.minimum: "min"}


class SymbolicElement(ArrayFace):
    """An array of no axes whose element is a term."""

    __array_priority__ = 2000

    def __init__(self, term: Expr) -> None:
        self.term, self.of = term, term.dtype

    @property
    def held(self) -> Array:
        """An array of its shape."""
        return np.zeros((), np.int8)

    def __bool__(self) -> bool:
        """Yes: the way that is right for all data is taken."""
        return True

    def __array__(self, *args: Any, **kwargs: Any) -> Array:
        raise Crash("the value of an elementwise operator asks for the numbers of its operands")

    __float__ = __int__ = __index__ = __array__

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__" or kwargs:
            raise Crash(f"{ufunc.__name__}.{method} has no rule for one element")
        if ufunc is np.invert:
            return self.operate("sub", self.of.numpy.type(self.of.max if self.of.kind == "uint" else -1), self)
        name = OF_UFUNCS.get(ufunc) or EXTREMES.get(ufunc)
        if name is None:
            raise Crash(f"{ufunc.__name__} has no rule for one element")
        if name in INTRINSICS and len(inputs) == 1:
            return SymbolicElement(INTRINSICS[name]([self.term]))
        return self.operate(name, *inputs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func is np.where and not kwargs:
            return self.operate("select", *args)
        if func is np.any and not kwargs:
            return args[0]
        raise Crash(f"{func.__name__} has no rule for one element")

    def operate(self, name: str, *operands: Any) -> SymbolicElement:
        """The operation of the scalar table; a number is one of the dtype of the elements beside it."""
        alike = operands[1:] if name == "select" else operands
        like = next((x for x in alike if isinstance(x, SymbolicElement)), self)
        terms = [
            x.term if isinstance(x, SymbolicElement) else const(x, dtype(getattr(x, "dtype", like.dtype)))
            for x in operands
        ]
        return SymbolicElement(select(*terms) if name == "select" else apply(name, *terms))

    def by(self, name: str) -> SymbolicElement:
        """A function that NumPy has not."""
        return self.operate(name, self)

    def any(self) -> SymbolicElement:
        """Whether it is true."""
        return self

    def astype(self, to: Any, copy: bool = True) -> SymbolicElement:
        """Converted, by rule M5."""
        return SymbolicElement(cast(self.term, dtype(to)))

    def view(self, to: Any) -> SymbolicElement:
        """The bits as those of another dtype."""
        return SymbolicElement(reinterpret(self.term, dtype(to)))

    def moved(self, move: Callable[[Array], Array]) -> SymbolicElement:
        """Itself: there is one place alone."""
        return self


def element_value(op: Operator, attrs: Attrs, *terms: Expr) -> Expr:
    """What the value of an elementwise operator gives of one element of each operand."""
    with np.errstate(all="ignore"):
        made = op.value(attrs, *map(SymbolicElement, terms))
    if not isinstance(made, SymbolicElement):
        raise Crash(f"{op.name} gives no element of elements")
    return made.term

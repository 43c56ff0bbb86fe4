"""Arrays of other things than numbers, which operators' values run on as they are (specs/semantics.md, "Operators").

NumPy's functions hand a call over to such an array (`__array_ufunc__`, `__array_function__`). What is no such function
does so here: conversion to a plain array, the scalar table, casts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.lib.mixins import NDArrayOperatorsMixin

from assay.semantics.dtypes import DType
from assay.semantics.scalar import convert, operation

Array: TypeAlias = npt.NDArray[Any]

OF_UFUNCS: dict[Any, str] = {
    np.add: "add", np.subtract: "sub", np.multiply: "mul", np.divide: "div", np.negative: "neg", np.absolute: "abs",
    np.sqrt: "sqrt", np.exp: "exp", np.log: "log", np.tanh: "tanh", np.power: "pow", np.floor: "floor",
    np.ceil: "ceil", np.rint: "rint", np.equal: "eq", np.not_equal: "ne", np.less: "lt",
    np.less_equal: "le", np.greater: "gt", np.greater_equal: "ge", np.logical_and: "and", np.logical_or: "or",
    np.logical_not: "not", np.logical_xor: "ne", np.sin: "sin", np.cos: "cos", np.tan: "tan", np.arcsin: "asin",
    np.arccos: "acos", np.arctan: "atan", np.sinh: "sinh", np.cosh: "cosh", np.arcsinh: "asinh", np.arccosh: "acosh",
    np.arctanh: "atanh",
}  # fmt: skip
"""NumPy's functions that are one operation of the scalar table."""


class ArrayFace(NDArrayOperatorsMixin):
    """What an array of other things than numbers shows of an array: its sizes, and the same elements placed elsewhere.
    What is computed with it the heir says, in `__array_ufunc__` and `__array_function__`."""

    __slots__ = ()
    of: DType
    """The dtype of what its elements stand for."""

    @property
    def held(self) -> Array:
        """An array with an element for each of its own."""
        raise NotImplementedError

    def moved(self, move: Callable[[Array], Array]) -> Self:
        """The same elements placed elsewhere by `move`."""
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int, ...]:
        """As NumPy's: the number of elements along each axis."""
        return self.held.shape

    @property
    def ndim(self) -> int:
        """As NumPy's: the number of axes."""
        return self.held.ndim

    @property
    def size(self) -> int:
        """As NumPy's: the number of elements."""
        return self.held.size

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of what its elements stand for."""
        return self.of.numpy

    @property
    def T(self) -> Self:
        """The axes in reverse order."""
        return self.transpose()

    def __len__(self) -> int:
        return len(self.held)

    __hash__ = None  # type: ignore[assignment]

    def reshape(self, *shape: Any) -> Self:
        """The same elements in another shape."""
        return self.moved(lambda a: a.reshape(*shape))

    def ravel(self) -> Self:
        """The same elements along one axis."""
        return self.reshape(-1)

    def copy(self) -> Self:
        """The same elements in memory of their own."""
        return self.moved(lambda a: a.copy())

    def transpose(self, *axes: Any) -> Self:
        """The axes in the order `axes`, reversed where none is given."""
        return self.moved(lambda a: a.transpose(*axes))

    def squeeze(self, axis: Any = None) -> Self:
        """Without the axes of size 1, or without `axis` alone."""
        return self.moved(lambda a: a.squeeze(axis))


def is_plain(x: Any) -> bool:
    """Whether `x` is numbers: an array or a scalar of NumPy's, a list, a number."""
    return isinstance(x, (np.ndarray, np.generic)) or not hasattr(x, "__array_function__")


def as_array(x: Any, of: Any = None) -> Any:
    """`x` as an array of NumPy dtype `of`; one of other things than numbers stays what it is."""
    if is_plain(x):
        return np.asarray(x, of)
    return x if of is None else x.astype(of, copy=False)


def by_table(name: str, *operands: Any) -> Any:
    """The operation of the scalar table on arrays."""
    other = next((x for x in operands if not is_plain(x)), None)
    return operation(name).meaning(*operands) if other is None else other.operate(name, *operands)


def converted(x: Any, to: DType) -> Any:
    """An array as another dtype, by rule M5."""
    return np.asarray(convert(x, to)) if is_plain(x) else x.astype(to.numpy)

"""Arrays of other things than numbers, which operators' values run on as they are (specs/semantics.md, "Operators").

NumPy's functions hand a call over to such an array (`__array_ufunc__`, `__array_function__`). What is no such function
does so here: conversion to a plain array, the scalar table, casts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.semantics.dtypes import DType
from assay.semantics.scalar import convert, operation


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

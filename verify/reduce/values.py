"""Simpler values (specs/verify.md, "reduce")."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from assay.semantics.dtypes import dtype
from assay.verify.reduce.case import ReducedCase, outputs_of, rebuilt

Array = np.ndarray[Any, Any]
PARTS = 64
"""Into how many parts an array is taken apart at most, to make one of them zero."""


def simpler_values(case: ReducedCase) -> Iterator[ReducedCase]:
    """Cases with one array, or a part of it, that is all zero or all one, or of fewer digits. What is given is as
    simple as it can be when nothing of that shows it any more."""
    arrays = {**case.initializers, **case.inputs}
    for name, array in arrays.items():
        for simpler in _simpler(array):
            yield rebuilt(case, case.nodes, outputs_of(case), {**arrays, name: simpler})


def _simpler(array: Array) -> Iterator[Array]:
    """Arrays whose elements are no less simple, and some of them simpler."""
    if not array.size:
        return
    of = dtype(array.dtype)
    zero, one = np.zeros_like(array), np.ones_like(array)
    same = array.reshape(-1)[:1].repeat(array.size).reshape(array.shape)
    for whole in (zero, one, same):
        if _cost(whole) < _cost(array):
            yield whole
    flat = array.reshape(-1)
    length = max(1, array.size // 2)
    while True:
        for start in range(0, array.size, length):
            part = flat[start : start + length]
            for fill in (np.zeros_like(part), np.ones_like(part), *([_rounded(part)] if of.is_float else [])):
                if _cost(fill) < _cost(part):
                    changed = flat.copy()
                    changed[start : start + length] = fill
                    yield changed.reshape(array.shape)
        if length == 1 or array.size // length >= PARTS:
            return
        length = max(1, length // 2)


def _rounded(part: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.rint(part.astype(np.float64)).astype(part.dtype)


def _cost(array: Array) -> int:
    """How much there is to read: nothing for zero, a little for one, more for whole numbers, most for the others."""
    with np.errstate(all="ignore"):
        wide = array.astype(np.float64)
        whole = np.isfinite(wide) & (wide == np.rint(wide))
    kinds = np.where(wide == 0, np.where(np.signbit(wide), 2, 0), np.where(wide == 1, 1, np.where(whole, 3, 4)))
    different = (
        len(np.unique(np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(array.size, -1), axis=0)) - 1
    )
    return int(kinds.sum()) * 4 + different

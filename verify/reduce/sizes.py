"""Smaller sizes (specs/verify.md, "reduce")."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from assay.semantics.dtypes import dtype
from assay.verify.reduce.case import ReducedCase, outputs_of, rebuilt

Array = np.ndarray[Any, Any]


def smaller_sizes(case: ReducedCase) -> Iterator[ReducedCase]:
    """Cases whose arrays are cut: all axes of one size together, with that number in small whole-number arrays changed
    too and without, and with larger numbers, for there are fewer to add up; then one axis of one array. What no longer
    fits together is no model, and shows nothing."""
    arrays = {**case.initializers, **case.inputs}
    sizes = sorted({d for a in arrays.values() for d in a.shape if d > 1}, reverse=True)
    for size in sizes:
        for to in dict.fromkeys((1, 2, size // 2, size - 1)):
            if not 0 < to < size:
                continue
            for last in (False, True):
                cut = {n: _cut(a, size, to, last) for n, a in arrays.items()}
                yield _with(case, cut)
                yield _with(case, {n: _scaled(a, size // to) if a.size < arrays[n].size else a for n, a in cut.items()})
                if last:
                    continue
                counts = {n: np.where(a == size, to, a).astype(a.dtype) for n, a in cut.items() if _counts(a)}
                if any((counts[n] != cut[n]).any() for n in counts):
                    yield _with(case, {**cut, **counts})
    for name, array in arrays.items():
        for axis, size in enumerate(array.shape):
            for to in dict.fromkeys((1, size // 2, size - 1)):
                if 0 < to < size:
                    for last in (False, True):
                        yield _with(case, {**arrays, name: _part(array, axis, to, last)})


def _counts(array: Array) -> bool:
    """Whether an array may be sizes: of a reshape, say."""
    return array.dtype == np.int64 and array.ndim <= 1


def _cut(array: Array, size: int, to: int, last: bool) -> Array:
    for axis, d in enumerate(array.shape):
        if d == size:
            array = _part(array, axis, to, last)
    return array


def _scaled(array: Array, factor: int) -> Array:
    if not dtype(array.dtype).is_float:
        return array
    with np.errstate(all="ignore"):
        return (array.astype(np.float64) * factor).astype(array.dtype)


def _part(array: Array, axis: int, to: int, last: bool) -> Array:
    start = array.shape[axis] - to if last else 0
    return np.ascontiguousarray(array[(slice(None),) * axis + (slice(start, start + to),)])


def _with(case: ReducedCase, arrays: dict[str, Array]) -> ReducedCase:
    return rebuilt(case, case.nodes, outputs_of(case), arrays)

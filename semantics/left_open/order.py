"""Conditions on the order of elements: of the largest, of those in rows with NaN, and of equal ones
(specs/semantics.md, "Left open")."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from assay.semantics.dtypes import dtype
from assay.semantics.left_open import Array, Fields, Flags, Opening, OperatorUse
from assay.semantics.ops import operator


def topk_unsorted(u: OperatorUse) -> Iterator[Opening]:
    """topk that need not be sorted: the same elements, each with its own place, in any order."""
    if u.attrs.get("sorted", True):
        return
    (x,) = u.operands
    axis = u.attrs["axis"] % x.ndim
    values, places = u.results
    wanted = np.sort(values, axis=axis)

    def only(got: Array, fields: Fields) -> Flags:
        at = fields.get(1)
        right = np.ones(values.shape, bool)
        given = fields.get(0)
        if at is not None:
            places_fit, taken = _taken(x, at, axis)
            right &= places_fit
            given = taken if given is None else given
            right &= np.asarray(same_elements(taken, given)).all(axis=axis, keepdims=True)
        if given is not None:
            right &= np.asarray(same_elements(np.sort(given, axis=axis), wanted)).all(axis=axis, keepdims=True)
        return right

    yield from _both(values, places, x.shape[axis], np.ones(values.shape, bool), only, axis)


def topk_nan(u: OperatorUse) -> Iterator[Opening]:
    """topk of rows with NaN: any elements, each with its own place."""
    if not u.has_nan:
        return
    (x,) = u.operands
    axis = u.attrs["axis"] % x.ndim
    values, places = u.results

    def only(got: Array, fields: Fields) -> Flags:
        right = np.ones(values.shape, bool)
        at, given = fields.get(1), fields.get(0)
        if at is not None:
            places_fit, taken = _taken(x, at, axis)
            right &= places_fit
            if given is not None:
                right &= same_elements(taken, given).all(axis=axis, keepdims=True)
        elif given is not None:
            right &= np.isnan(given) | np.isin(given, x)
        return right

    where = np.broadcast_to(u.rows_with_nan(axis), values.shape)
    yield from _both(values, places, x.shape[axis], where, only, axis, nan=True)


def topk_ties(u: OperatorUse) -> Iterator[Opening]:
    """topk that need not be stable: of equal elements the places of any, each once; -0 and +0 are equal."""
    if u.attrs.get("stable", True) or not u.attrs.get("sorted", True):
        return
    (x,), (values, places) = u.operands, u.results
    axis = u.attrs["axis"] % x.ndim
    if not values.size:
        return
    elements, order = operator("topk").value({**u.attrs, "k": x.shape[axis]}, x)
    line = np.arange(x.shape[axis]).reshape([-1 if a == axis else 1 for a in range(x.ndim)])
    begins = ~same_elements(elements, np.roll(elements, 1, axis))
    ends = np.roll(begins, -1, axis)
    first = np.maximum.accumulate(np.where(begins | (line == 0), line, 0), axis)
    last = np.where(ends | (line == line.max()), line, line.max())
    last = np.flip(np.minimum.accumulate(np.flip(last, axis), axis), axis)
    kept = (slice(None),) * axis + (slice(0, values.shape[axis]),)
    least, most = (np.take_along_axis(order, end, axis)[kept] for end in (first, last))

    def only(got: Array, _: Fields) -> Flags:
        places_fit, taken = _taken(x, got, axis)
        return np.asarray(places_fit & same_elements(taken, values))

    yield Opening(least != most, least.astype(places.dtype), most.astype(places.dtype), only=only, index=1)
    if dtype(x.dtype).is_float:
        zeros = [((x == 0) & (np.signbit(x) == sign)).any(axis=axis, keepdims=True) for sign in (False, True)]
        yield Opening((values == 0) & zeros[0] & zeros[1], values, values)


def _taken(x: Array, at: Array, axis: int) -> tuple[Flags, Array]:
    """Whether places along an axis are inside and differ from one another, and the elements there."""
    inside = (at >= 0) & (at < x.shape[axis])
    apart = np.diff(np.sort(at, axis=axis), axis=axis) != 0
    return inside & apart.all(axis=axis, keepdims=True), np.take_along_axis(x, np.where(inside, at, 0), axis)


def same_elements(a: Array, b: Array) -> Flags:
    """Which elements are equal, or both NaN."""
    same = np.asarray(a == b)
    return same | (np.isnan(a) & np.isnan(b)) if dtype(a.dtype).is_float else same


def _both(
    values: Array,
    places: Array,
    size: int,
    where: Flags,
    only: Callable[[Array, Fields], Flags],
    axis: int,
    nan: bool = False,
) -> Iterator[Opening]:
    """The values and the places of topk, each judged beside the other."""
    if not values.size:
        return
    low = None if nan else np.broadcast_to(values.min(axis=axis, keepdims=True), values.shape)
    high = None if nan else np.broadcast_to(values.max(axis=axis, keepdims=True), values.shape)
    yield Opening(where, low, high, only=lambda got, others: only(got, {**others, 0: got}))
    last = np.full(places.shape, size - 1, places.dtype)
    yield Opening(
        where,
        np.zeros(places.shape, places.dtype),
        last,
        only=lambda got, others: only(got, {**others, 1: got}),
        index=1,
    )

"""The errors that the elements of tensors share: for each symbol of a run, a number for each element
(specs/semantics.md, "Errors that hang together").

What only moves, repeats or scales elements is remembered and not carried out: a chain of elementwise functions of one
tensor costs no more than the tensor has elements.

The numbers are float32: errors of errors, which go into the rest of an element as what float64 rounds does. `COARSE` is
what each use of them may be off by; sums of magnitudes are rounded upwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from assay.semantics.bounding.core import Array, Floats

PIECE = 1 << 17
"""Numbers that are worked on at a time."""
Coarse: TypeAlias = npt.NDArray[np.float32]
COARSE = 2.0**-22
"""What a number that is moved, scaled and added to another may be off by, as a part of the magnitudes in it: three
roundings to float32. A sum of n products of such numbers may be off by n + 4 times as much."""
SMALLEST = 2.0**-148
"""What it may be off by where it is too small for float32."""
LARGEST = 1e30
"""Errors from here on are not shared: float32 does not hold what may come of them."""


@dataclass(frozen=True, eq=False)
class Errors:
    """For each of the symbols `ids`, which ascend, a row of `base`. Element i has the column `places[i]`, none where
    that is below 0, times `scale[i]`; without `places` its own."""

    ids: Array
    base: Coarse
    shape: tuple[int, ...]
    places: Array | None = None
    scale: Floats | None = None
    sums: list[Floats] = field(default_factory=list)
    jointly: list[Floats] = field(default_factory=list)

    @staticmethod
    def none(shape: tuple[int, ...]) -> Errors:
        """No symbols."""
        return Errors(np.zeros(0, np.int64), np.zeros((0, int(np.prod(shape))), np.float32), shape)

    @property
    def size(self) -> int:
        """How many numbers they are, one for each symbol and element."""
        return len(self.ids) * int(np.prod(self.shape))

    @property
    def columns(self) -> Floats:
        """The sum of magnitudes over all symbols, for each column of the base."""
        if not self.sums:
            self.sums.append(total(self.base))
        return self.sums[0]

    @cached_property
    def reach(self) -> Floats:
        """The sum of magnitudes over all symbols, for each element."""
        found = self.columns if self.places is None else _taken(self.columns, self.places)
        found = found.reshape(self.shape)
        return found if self.scale is None else np.asarray(found * np.abs(self.scale))

    def at(self, places: Array) -> Errors:
        """Those of elements at flat places; below 0 stands one without errors."""
        if is_order(places, self.shape):
            scale = None if self.scale is None else self.scale.reshape(places.shape)
            inner = None if self.places is None else self.places.reshape(places.shape)
            jointly = self.jointly if places.shape[-1:] == self.shape[-1:] else []
            return replace(self, shape=places.shape, places=inner, scale=scale, jointly=jointly)
        scale = None if self.scale is None else _taken(self.scale.ravel(), places).reshape(places.shape)
        inner = places if self.places is None else np.where(places < 0, -1, self.places.ravel()[places])
        return replace(self, shape=places.shape, places=inner, scale=scale, jointly=[])

    def times(self, by: Any) -> Errors:
        """Each element's times a number."""
        scale = np.broadcast_to(by if self.scale is None else self.scale * by, self.shape)
        return replace(self, scale=scale)

    def part(self, some: Any) -> Coarse:
        """The rows `some`, of the shape of the elements."""
        found = self.base[some]
        if self.places is not None:
            found = _taken(found, self.places)
        found = found.reshape(len(found), *self.shape)
        return found if self.scale is None else np.asarray(found * self._coarse_scale, np.float32)

    @cached_property
    def _coarse_scale(self) -> Array:
        """The scale in float32, where that holds it."""
        assert self.scale is not None
        size = np.abs(self.scale)
        fits = (size == 0) | ((size >= 1 / LARGEST) & (size <= LARGEST))
        return self.scale.astype(np.float32) if fits.all() else self.scale

    @property
    def squares(self) -> Floats:
        """For each row along the last axis, a bound of the sum of the squares of its errors, each as a part of its
        reach: no more than there are elements, and much less where these cannot all be as far off at once.

        By Cauchy and Schwarz the square of sum g_k e_k, for a direction v, is at most sum d_k times
        sum (g_k v)^2 / d_k, whatever the weights d_k above 0 are; here they are the lengths of the g_k.
        """
        if not self.jointly:
            self.jointly.append(_squares(replace(self, scale=None)))
        return self.jointly[0]

    def pieces(self) -> Iterator[slice]:
        """The rows, some at a time."""
        step = max(1, PIECE // max(1, int(np.prod(self.shape))))
        return (slice(i, min(i + step, len(self.ids))) for i in range(0, len(self.ids), step))

    def is_on(self, other: Errors) -> bool:
        """Whether elements have the same columns, scaled in other ways."""
        same = self.places is other.places or (
            self.places is not None and other.places is not None and np.array_equal(self.places, other.places)
        )
        return self.base is other.base and self.shape == other.shape and same

    def without(self, where: Array) -> Errors:
        """None where it is said."""
        return self.times(np.where(where, 0.0, 1.0)) if where.any() else self


def is_order(places: Array, shape: tuple[int, ...]) -> bool:
    """Whether flat places are those of all elements of a shape, one after another."""
    size = int(np.prod(shape))
    return bool(places.size == size and np.array_equal(places.ravel(), np.arange(size)))


def _taken(rows_: Floats, places: Array) -> Floats:
    """Columns at places, 0 where these are below 0."""
    flat = places.ravel()
    found = np.take(rows_, flat, axis=-1)
    none = np.flatnonzero(flat < 0)
    if none.size:
        found[..., none] = 0.0
    return found


def total(errors: Coarse) -> Floats:
    """The sum of magnitudes over the rows, no less, a few at a time."""
    out = np.zeros(errors.shape[1:])
    step = min(max(1, (1 << 16) // max(1, out.size)), 1 << 10)
    for i in range(0, len(errors), step):
        out += np.abs(errors[i : i + step]).sum(axis=0)
    return np.asarray(out * (1 + step * COARSE))


def union(many: Sequence[Array]) -> Array:
    """All symbols of several tensors, ascending."""
    first = max(many, key=len, default=np.zeros(0, np.int64))
    for ids in many:
        if ids is not first:
            first = ids if len(ids) == len(first) and np.array_equal(ids, first) else np.union1d(first, ids)
    return first


def rows(ids: Array, some: Array) -> Any:
    """Where some symbols are among `ids`."""
    at = np.searchsorted(ids, some)
    if len(at) and at[-1] - at[0] == len(at) - 1:
        return slice(int(at[0]), int(at[-1]) + 1)
    return at


def summed(parts: Sequence[Errors]) -> Errors:
    """The sum of errors of elements of one shape."""
    first = parts[0]
    if all(p.is_on(first) for p in parts):
        scales = [np.ones(()) if p.scale is None else p.scale for p in parts]
        return replace(first, scale=np.broadcast_to(sum(scales[1:], scales[0]), first.shape))
    ids = union([p.ids for p in parts])
    base = np.zeros((len(ids), *first.shape), np.float32)
    for p in parts:
        to = rows(ids, p.ids)
        for some in p.pieces():
            here = slice(to.start + some.start, to.start + some.stop) if isinstance(to, slice) else to[some]
            base[here] += p.part(some)
    return Errors(ids, base.reshape(len(ids), int(np.prod(first.shape))), first.shape)


def _squares(errors: Errors) -> Floats:
    count, rows_ = errors.shape[-1], errors.shape[:-1]
    by = errors.reach.reshape(-1, count)
    part = np.where(by > 0, 1 / np.where(by > 0, by, 1.0), 0.0).astype(np.float32)
    gram, lengths, most = np.zeros((len(by), count, count)), np.zeros(len(by)), 1
    for some in errors.pieces():
        e = np.moveaxis(errors.part(some).reshape(-1, *by.shape), 0, 1) * part[:, None]
        length = np.sqrt(np.einsum("rmi,rmi->rm", e, e, dtype=np.float32))
        e *= np.where(length > 0, 1 / np.sqrt(np.where(length > 0, length, 1.0)), 0.0)[..., None].astype(np.float32)
        gram += np.matmul(np.swapaxes(e, 1, 2), e)
        lengths += length.sum(axis=1, dtype=np.float64)
        most = max(most, e.shape[1])
    known = np.isfinite(gram).all(axis=(1, 2)) & np.isfinite(lengths)
    gram[~known] = 0.0
    trace = np.trace(gram, axis1=1, axis2=2)
    largest = np.linalg.eigvalsh(gram)[:, -1] + trace * COARSE * (most + 32)
    bound = np.where(known, np.maximum(largest, 0.0) * lengths * (1 + 64 * COARSE), count)
    return np.minimum(bound, count).reshape(*rows_, 1)

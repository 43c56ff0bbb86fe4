"""What generated code calls: checked gathers and scatters, and the traps of lanes (specs/interp.md, "Vector")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from assay.interp.binding import Array
from assay.interp.reports import failed, outside, unwritten
from assay.semantics.errors import Span, Trap
from assay.semantics.scalar import Expr, Var, evaluate
from assay.semantics.tensor import Buffer

At: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
"""Where a run is: the values of the Python loops, and the first lane of each lane axis."""


@dataclass(eq=False)
class Site:
    """A place in the program for messages: what is accessed there, the loops around it, and where it was written."""

    buffer: Buffer | None
    indices: tuple[Expr, ...]
    serial: tuple[Var, ...]
    lanes: tuple[Var, ...]
    span: Span | None

    def iteration(self, bad: Array, at: At) -> dict[Var, int]:
        """The iteration of the first lane where `bad` holds; `bad` has an axis for each lane loop, after a first
        one."""
        found = {v: int(i) for v, i in zip(self.serial, at[0], strict=True)}
        if bad.ndim == len(self.lanes) + 1:
            first = np.unravel_index(int(np.argmax(bad)), bad.shape)[1:]
            found |= {v: s + int(i) for v, s, i in zip(self.lanes, at[1], first, strict=True)}
        return found

    def located(self, trap: Trap, bad: Array, at: At) -> Trap:
        """A report with its iteration and its place."""
        iteration = tuple((v.name, n) for v, n in self.iteration(bad, at).items())
        return trap.but(iteration=iteration, where=self.span)


def unready(site: Site, written: Any, at: At) -> Trap:
    """The trap for a read, at affine indices, of elements of which `written` does not hold everywhere."""
    assert site.buffer is not None
    bad = ~np.asarray(written)
    env = {v: v.dtype.numpy.type(n) for v, n in site.iteration(bad, at).items()}
    return site.located(unwritten(site.buffer, [evaluate(i, env) for i in site.indices]), bad, at)


def failing(site: Site, kind: str, message: str, asserted: Expr, holds: Any, at: At) -> Trap:
    """The trap for an assertion that does not hold in every lane."""
    return site.located(failed(kind, message, asserted), ~np.asarray(holds), at)


def place_of(site: Site, shape: Sequence[int], index: Sequence[Any], at: At) -> Any:
    """Each lane's element as a place in row-major order. Traps unless every index is within its own dimension.

    Small index arrays are combined before large ones. The first axes of `shape` may say which lane's buffer it is.
    """
    place: Any = 0
    stride = 1
    for axis in reversed(range(len(shape))):
        i, n = index[axis], shape[axis]
        if i.dtype.isbuiltin != 1:  # NumPy computes with no 4-bit integer
            i = i.astype(np.int64)
        low, high = (int(i.min()), int(i.max())) if isinstance(i, np.ndarray) else (int(i), int(i))
        if low < 0 or high >= n:
            raise _outside(site, shape, index, axis, at)
        place = place + i.astype(np.int64, copy=False) * np.int64(stride)  # with a uint64 NumPy would make floats
        stride *= n
    return place


def _outside(site: Site, shape: Sequence[int], index: Sequence[Any], axis: int, at: At) -> Trap:
    whole = np.broadcast_arrays(*index)
    bad = (whole[axis] < 0) | (whole[axis] >= shape[axis])
    assert site.buffer is not None
    lead = len(shape) - len(site.buffer.shape)
    return site.located(outside(site.buffer, _first(whole[lead:], bad), axis - lead, shape[axis]), bad, at)


def _first(index: Sequence[Array], bad: Array) -> list[int]:
    """The index of the first lane where `bad` holds."""
    return [int(i[bad][0]) for i in index]


def gather(site: Site, array: Array, written: Array | None, at: At, *index: Any) -> Any:
    """The elements at the lanes' indices. Traps out of bounds and where one is unwritten."""
    place = place_of(site, array.shape, index, at)
    if written is not None:
        known = written.reshape(-1).take(place)
        if not known.all():
            assert site.buffer is not None
            *whole, bad = np.broadcast_arrays(*index[len(array.shape) - len(site.buffer.shape) :], ~known)
            raise site.located(unwritten(site.buffer, _first(whole, bad)), bad, at)
    return array.reshape(-1).take(place, mode="clip")


def scatter(site: Site, array: Array, written: Array | None, at: At, value: Any, *index: Any) -> None:
    """The elements at the lanes' indices become the lanes' values. Traps out of bounds."""
    place = np.atleast_1d(place_of(site, array.shape, index, at))
    array.reshape(-1)[place] = value
    if written is not None:
        written.reshape(-1)[place] = True

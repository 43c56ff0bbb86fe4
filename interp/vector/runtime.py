"""What generated code calls: checked gathers and scatters, and the traps of lanes (specs/interp.md, "Vector")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from assay.interp.binding import Array
from assay.interp.memory import element
from assay.semantics.errors import Trap
from assay.semantics.scalar import Expr, Var, show
from assay.semantics.tensor import Buffer

At: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
"""Where a run is: the values of the Python loops, and the first lane of each lane axis."""


@dataclass(eq=False)
class Site:
    """A place in the program for messages: what is accessed there, and the loops around it."""

    buffer: Buffer | None
    indices: tuple[Expr, ...]
    serial: tuple[Var, ...]
    lanes: tuple[Var, ...]

    def iteration(self, bad: Array, at: At) -> str:
        """The iteration of the first lane where `bad` holds; `bad` has an axis for each lane loop, after a first one."""
        parts = [f"{v.name}={int(i)}" for v, i in zip(self.serial, at[0], strict=True)]
        if bad.ndim == len(self.lanes) + 1:
            first = np.unravel_index(int(np.argmax(bad)), bad.shape)[1:]
            parts += [f"{v.name}={s + int(i)}" for v, s, i in zip(self.lanes, at[1], first, strict=True)]
        return f", in iteration {', '.join(parts)}" if parts else ""


def unwritten(site: Site, written: Any, at: At) -> Trap:
    """The trap for a read of elements of which `written` does not hold everywhere."""
    name = site.buffer.name if site.buffer is not None else "?"
    where = site.iteration(~np.asarray(written), at)
    return Trap(
        "unwritten read",
        f"{name}[{', '.join(map(show, site.indices))}] is read before it is written{where}",
        label="tensor.T3",
    )


def failed(site: Site, kind: str, message: str, condition: Any, at: At) -> Trap:
    """The trap for an assertion that does not hold in every lane."""
    return Trap(kind, message + site.iteration(~np.asarray(condition), at), label="tensor.T7")


def place_of(site: Site, shape: Sequence[int], index: Sequence[Any], at: At) -> Any:
    """Each lane's element as a place in row-major order. Traps unless every index is within its own dimension.

    Small index arrays are combined before large ones. The first axes of `shape` may say which lane's buffer it is.
    """
    place: Any = 0
    stride = 1
    for axis in reversed(range(len(shape))):
        i, n = index[axis], shape[axis]
        low, high = (int(i.min()), int(i.max())) if isinstance(i, np.ndarray) else (int(i), int(i))
        if low < 0 or high >= n:
            raise _outside(site, shape, index, axis, at)
        place = place + i * np.int64(stride)
        stride *= n
    return place


def _outside(site: Site, shape: Sequence[int], index: Sequence[Any], axis: int, at: At) -> Trap:
    whole = np.broadcast_arrays(*index)
    bad = (whole[axis] < 0) | (whole[axis] >= shape[axis])
    assert site.buffer is not None
    lead = len(shape) - len(site.buffer.shape)
    first = [int(i[bad][0]) for i in whole]
    return Trap(
        "out of bounds",
        f"{element(site.buffer, first[lead:])}: index {first[axis]} is outside [0, {shape[axis]})"
        f" in dimension {axis - lead}{site.iteration(bad, at)}",
        label="tensor.T2",
    )


def gather(site: Site, array: Array, written: Array | None, at: At, *index: Any) -> Any:
    """The elements at the lanes' indices. Traps out of bounds and where one is unwritten."""
    place = place_of(site, array.shape, index, at)
    if written is not None:
        known = written.reshape(-1).take(place)
        if not known.all():
            raise unwritten(site, known, at)
    return array.reshape(-1).take(place, mode="clip")


def scatter(site: Site, array: Array, written: Array | None, at: At, value: Any, *index: Any) -> None:
    """The elements at the lanes' indices become the lanes' values. Traps out of bounds."""
    place = np.atleast_1d(place_of(site, array.shape, index, at))
    array.reshape(-1)[place] = value
    if written is not None:
        written.reshape(-1)[place] = True

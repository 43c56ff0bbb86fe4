"""What the definition watches while a tensor function runs (rules M6, M7; specs/interp.md, "Tensor").

Elements are those of memory, whatever view they were named by. Each watcher is told every access, and traps on the one
that breaks what the program claims: that iterations are independent, that lanes may go side by side, that a block
touches no more than it says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from assay.interp.reports import carried, race, undeclared
from assay.semantics.scalar import Var
from assay.semantics.tensor import Block, Buffer

Index: TypeAlias = tuple[Any, ...]
Place: TypeAlias = tuple[Buffer, Index]
"""An element: a buffer, and numbers."""
Spot: TypeAlias = tuple[Buffer, Index, int | None]
"""An element, or one byte of it, in memory."""
Position: TypeAlias = tuple[int, ...]
"""Where in an iteration a step is: which part of which part, outermost first. Later steps are greater."""


class Race:
    """One run of a parallel loop: no two iterations touch an element that one of them writes (rule E4)."""

    def __init__(self, var: Var) -> None:
        self.var = var
        self.now = 0
        self.writer: dict[Spot, int] = {}
        self.reader: dict[Spot, int] = {}
        """The first iteration that read an element: if another than the present one did, it is that other."""

    def touch(self, place: Spot, write: bool) -> None:
        """One access of the iteration that runs; traps (tensor.T6) where another iteration touched it and one of
        them writes."""
        other = self.writer.get(place, self.now)
        if write and other == self.now:
            other = self.reader.get(place, self.now)
        if other != self.now:
            raise race(self.var, other, self.now, *place)
        if write:
            self.writer[place] = self.now
        else:
            self.reader.setdefault(place, self.now)


@dataclass
class Latest:
    """The latest step at which lanes touched an element: those before lane `by`, and lane `by` itself."""

    by: int
    own: Position
    before: Position | None = None
    lane: int = 0
    """The lane of `before`."""

    def step(self, lane: int, position: Position) -> None:
        """Lane `lane` touches the element at `position`."""
        if lane != self.by:
            if self.before is None or self.own > self.before:
                self.before, self.lane = self.own, self.by
            self.by, self.own = lane, position
        else:
            self.own = max(self.own, position)

    def others(self, lane: int) -> tuple[Position | None, int]:
        """The latest position at which a lane other than `lane` touched the element (None: never), and which lane
        that was."""
        if lane != self.by and (self.before is None or self.own > self.before):
            return self.own, self.by
        return self.before, self.lane


class LaneWatch:
    """One run of a vectorized loop: all lanes at once must do what one after another does (rule E5).

    At once means: every lane takes a step before any takes the next, and in a step all read before one writes.
    """

    def __init__(self, var: Var) -> None:
        self.var = var
        self.now = 0
        self.writes: dict[Spot, Latest] = {}
        self.reads: dict[Spot, Latest] = {}

    def touch(self, place: Spot, write: bool, position: Position) -> None:
        """One access of the lane that runs, at `position`; traps where lanes side by side would see another value."""
        wrote = self.writes.get(place)
        if wrote is not None:
            other, lane = wrote.others(self.now)
            if other is not None and other >= position:
                what = "both write" if write else f"{self.now} reads what {lane} wrote, in"
                raise carried(self.var, lane, self.now, what, *place)
        read = self.reads.get(place)
        if write and read is not None:
            other, lane = read.others(self.now)
            if other is not None and other > position:
                raise carried(self.var, lane, self.now, f"{self.now} writes what {lane} reads later, in", *place)
        table = self.writes if write else self.reads
        if place in table:
            table[place].step(self.now, position)
        else:
            table[place] = Latest(self.now, position)


@dataclass(frozen=True)
class DeclaredBox:
    """A declared region now: for each dimension the first index and the one after the last; None is not checked."""

    bounds: tuple[tuple[int, int] | None, ...]

    def holds(self, index: Index) -> bool:
        """Whether the element at `index` is in the box."""
        return all(b is None or b[0] <= i < b[1] for b, i in zip(self.bounds, index, strict=True))

    def __str__(self) -> str:
        return ", ".join(":" if b is None else str(b[0]) if b[1] == b[0] + 1 else f"{b[0]}:{b[1]}" for b in self.bounds)


Boxes: TypeAlias = Mapping[Buffer, Sequence[DeclaredBox]]


@dataclass(frozen=True, eq=False)
class Declared:
    """What one run of a block says that it reads and writes (rule E14)."""

    block: Block
    reads: Boxes | None
    writes: Boxes | None

    def touch(self, names: Sequence[Place], write: bool) -> None:
        """`names` are the element as it was written, then through each view as an element of the view's source."""
        said = self.writes if write else self.reads
        if said is None or any(box.holds(index) for buffer, index in names for box in said.get(buffer, ())):
            return
        if not write and self.writes is not None:  # what a reduction reads to add to it, it declares as written
            if any(box.holds(index) for buffer, index in names for box in self.writes.get(buffer, ())):
                return
        raise undeclared(self.block, names, write, said)

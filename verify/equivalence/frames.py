"""What holds at a place of a program, in all its activations (specs/verify.md, "equivalence")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from assay.semantics.errors import Trap
from assay.semantics.scalar import Var
from assay.semantics.tensor import Buffer
from assay.verify.equivalence.events import Array, Known, Lane, TraceEvent


@dataclass(frozen=True, eq=False)
class BufferCells:
    """A buffer's place: the address of its first element in each lane. Inputs and constants have none."""

    shape: tuple[int, ...]
    first: Any = 0
    number: int = -1
    """Which input it is, from 0."""
    data: Array | None = None


@dataclass(frozen=True, eq=False)
class LaneFrame:
    """The activations of one place in the program, its lanes, in their order, and what begins to hold there.

    What holds around it is found in `parent`, whose lane `lane[i]` is the one around lane i (None: the same lane).
    """

    count: int
    parent: LaneFrame | None = None
    lane: Lane = None
    env: Mapping[Var, Any] = field(default_factory=dict)
    cells: Mapping[Buffer, BufferCells] = field(default_factory=dict)
    data: Mapping[Var, Known | int] = field(default_factory=dict)
    """Variables that hold data: a value made before, or the number of a scalar parameter."""
    guard: tuple[TraceEvent, bool] | None = None
    """A condition on data under which this place is reached."""
    race: int = -1
    """The number of the parallel loop of which these are the iterations."""
    special: bool = False
    """Whether there is a guard or a race, here or around."""
    found: dict[Any, Any] = field(default_factory=dict)
    """What was looked up around before."""

    def inside(self, count: int | None = None, lane: Lane = None, **holds: Any) -> LaneFrame:
        """A frame inside this one; `lane` gives for each of its activations the one around it, None: the same."""
        special = self.special or "guard" in holds or "race" in holds
        return LaneFrame(self.count if count is None else count, self, lane, special=special, **holds)

    def around(self) -> Iterator[tuple[LaneFrame, Lane]]:
        """This frame and those around it, with the lane of each that a lane here belongs to."""
        frame: LaneFrame | None = self
        lane: Lane = None
        while frame is not None:
            yield frame, lane
            if frame.lane is not None:
                lane = frame.lane if lane is None else frame.lane[lane]
            frame = frame.parent

    def number(self, var: Var) -> Any:
        """What a variable is in each lane, or for all."""
        if var not in self.found:
            for frame, lane in self.around():
                if var in frame.env:
                    x = frame.env[var]
                    self.found[var] = x[lane] if lane is not None and isinstance(x, np.ndarray) and x.ndim else x
                    break
            else:
                raise KeyError(var)
        return self.found[var]

    def place(self, buffer: Buffer) -> BufferCells:
        """The cells of a buffer for the lanes of this frame; Trap (`tensor.T1`) where it does not exist."""
        if buffer not in self.found:
            for frame, lane in self.around():
                if buffer in frame.cells:
                    c = frame.cells[buffer]
                    many = lane is not None and isinstance(c.first, np.ndarray)
                    self.found[buffer] = replace(c, first=c.first[lane]) if many else c
                    break
            else:
                raise Trap("use outside lifetime", f"buffer {buffer.name} does not exist here", label="tensor.T1")
        cells: BufferCells = self.found[buffer]
        return cells

    def known(self, var: Var) -> Known | int | None:
        """The data that a variable holds; None for one that is a number."""
        key = ("data", var)
        if key not in self.found:
            self.found[key] = None
            for frame, lane in self.around():
                if var in frame.env:
                    break
                if var in frame.data:
                    of = frame.data[var]
                    self.found[key] = of if isinstance(of, int) else Known(of.event, lane)
                    break
        found: Known | int | None = self.found[key]
        return found

    def guards(self) -> tuple[tuple[Known, bool], ...]:
        """The conditions around this place, outermost first, each with the side on which it is."""
        if not self.special:
            return ()
        found = [(Known(f.guard[0], lane), f.guard[1]) for f, lane in self.around() if f.guard is not None]
        return tuple(reversed(found))

    def races(self) -> tuple[tuple[int, Array], ...]:
        """The parallel loops around this place, each with the lanes of its frame."""
        if not self.special:
            return ()
        every = np.arange(self.count)
        return tuple((f.race, every if lane is None else lane) for f, lane in self.around() if f.race >= 0)


class FrameNumbers(Mapping[Var, Any]):
    """The variables of a frame that are numbers."""

    def __init__(self, frame: LaneFrame) -> None:
        self.frame = frame

    def __getitem__(self, var: Var) -> Any:
        return self.frame.number(var)

    def __iter__(self) -> Iterator[Var]:
        return (v for f, _ in self.frame.around() for v in f.env)

    def __len__(self) -> int:
        return sum(1 for _ in self)

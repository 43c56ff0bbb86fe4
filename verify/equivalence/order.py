"""When the instances of events run, and races (specs/verify.md, "equivalence")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from assay.semantics.errors import Trap
from assay.semantics.tensor import Buffer, For
from assay.verify.equivalence.events import TraceEvent

Array: TypeAlias = np.ndarray[Any, Any]


class UndecidedTrace(Exception):
    """What cannot be decided by evaluating over symbols, and why."""


@dataclass(eq=False)
class Group:
    """A place with things in order: an event (no children), or lanes made of the lanes of the group around it."""

    parent: int
    lane: Array | None = None
    """For each lane, the lane of the parent."""
    iteration: Array | None = None
    children: list[int] = field(default_factory=list)
    is_leaf: bool = False
    total: Any = 0
    """How many instances run in one lane: a number if it is the same in all."""
    start: Any = 0


class Clock:
    """Gives each instance of each event its place in the whole run: places are entered in program order."""

    def __init__(self) -> None:
        self.groups = [Group(-1)]
        self.root = 0

    def _add(self, group: Group) -> int:
        self.groups.append(group)
        self.groups[group.parent].children.append(len(self.groups) - 1)
        return len(self.groups) - 1

    def leaf(self, group: int) -> int:
        """Add a single event inside a group; gives its number."""
        return self._add(Group(group, is_leaf=True, total=1))

    def loop(self, group: int, lane: Array, iteration: Array) -> int:
        """Add a loop inside a group: for each of its lanes the lane around it and the iteration."""
        return self._add(Group(group, lane, iteration))

    def some(self, group: int, which: Array) -> int:
        """Only the lanes at places `which`."""
        return self._add(Group(group, which))

    def run(self) -> int:
        """Set the start of every group; how many instances there are."""
        width = [1] * len(self.groups)
        for n, g in enumerate(self.groups):
            if n:
                width[n] = width[g.parent] if g.lane is None else len(g.lane)
        seen: list[Any] = [0] * len(self.groups)
        for n in reversed(range(len(self.groups))):
            g = self.groups[n]
            if not g.is_leaf:
                for c in g.children:
                    g.total = g.total + seen[c]
            seen[n] = g.total
            if g.lane is not None:
                each = np.broadcast_to(np.asarray(g.total, np.int64), width[n])
                seen[n] = np.bincount(g.lane, each, width[g.parent]).astype(np.int64)
        for g in self.groups:
            begin = g.start
            for c in g.children:
                child = self.groups[c]
                if child.lane is None:
                    child.start = begin
                else:
                    first = begin[child.lane] if isinstance(begin, np.ndarray) else begin
                    child.start = first + _before(child) if child.iteration is not None else first
                begin = begin + seen[c]
        return int(np.sum(self.groups[0].total))


def _before(group: Group) -> Any:
    """What has run in the iterations before, in each lane of a loop."""
    if not isinstance(group.total, np.ndarray):
        return group.iteration * group.total
    assert group.lane is not None
    sums = np.cumsum(group.total) - group.total
    firsts = np.flatnonzero(np.diff(group.lane, prepend=-1))
    return sums - np.repeat(sums[firsts], np.diff(firsts, append=len(sums)))


class Races:
    """Parallel loops, each of which asserts that no two iterations touch an element that one of them writes.

    A lane of a loop is one iteration in one activation of it.
    """

    def __init__(self) -> None:
        self.loops: list[tuple[For, int, Array]] = []

    def enter(self, loop: For, memory: int, activation: Array) -> int:
        """A number for a loop. Memory from `memory` on begins inside it, and is each iteration's own."""
        self.loops.append((loop, memory, activation))
        return len(self.loops) - 1

    def check(self, events: Sequence[TraceEvent], order: Array, addresses: Array) -> None:
        """Traps where iterations meet. `order` sorts the instances of stores by address, then time."""
        stores = [e for e in events if e.address is not None]
        for number, (loop, memory, activation) in enumerate(self.loops):
            inside = [e for e in events if any(n == number for n, _ in e.races)]
            written = {e.buffer for e in inside if e.address is not None}
            reads = any(r.buffer in written and not r.own for e in inside for r in e.reads.values())
            if not written:
                continue
            if reads:
                met = self.meet(number, inside, written)
            else:
                lane = np.concatenate([_lane(e, number) for e in stores])[order]
                there = np.where(addresses < memory, lane, -1)
                one, two = there[:-1], there[1:]
                pair = (one != two) & (one >= 0) & (two >= 0) & (addresses[:-1] == addresses[1:])
                met = bool(np.any(activation[one[pair]] == activation[two[pair]]))
            if met and loop.kind == "vectorized":  # which is no race where lanes may take each step at once (rule E5)
                raise UndecidedTrace(f"lanes of the loop over {loop.var.name} touch one element")
            if met and any(e.guards for e in inside):
                raise UndecidedTrace(f"whether iterations of the loop over {loop.var.name} race depends on data")
            if met:
                raise Trap("race", f"iterations of the loop over {loop.var.name} touch one element", label="tensor.T6")

    def meet(self, number: int, events: Sequence[TraceEvent], written: set[Buffer | None]) -> bool:
        """Whether a lane stores what another one of the same activation touches."""
        _, memory, activation = self.loops[number]
        keys: tuple[list[Array], list[Array]] = ([], [])
        who: tuple[list[Array], list[Array]] = ([], [])
        for e in events:
            lane = _lane(e, number)
            places = [] if e.address is None else [(0, e.address)]
            places += [
                (1, r.places) for r in e.reads.values() if r.buffer in written and r.places is not None and not r.own
            ]
            for into, at in places:
                at = np.broadcast_to(at, e.count)
                shared = at < memory
                keys[into].append(activation[lane[shared]] * np.int64(memory) + at[shared])
                who[into].append(lane[shared])
        _, place = np.unique(np.concatenate([*keys[0], *keys[1]]), return_inverse=True)
        lanes = np.concatenate([*who[0], *who[1]])
        stores = sum(map(len, keys[0]))
        writer = np.full(int(place.max(initial=0)) + 1, -1, np.int64)
        writer[place[:stores]] = lanes[:stores]  # the last one stays; any other one differs from it
        met = writer[place]
        return bool(np.any((met >= 0) & (met != lanes)))


def _lane(event: TraceEvent, number: int) -> Array:
    """The lane of a loop that each instance belongs to; -1 where it is not in the loop."""
    for n, lane in event.races:
        if n == number:
            return lane
    return np.full(event.count, -1, np.int32)

"""What the exact search works on: buffers of one pool as sizes in units on sections of time (specs/lower.md).

A section is a set of buffers that are live together. What is live at a position is one; a section whose buffers are all
in another says nothing and is left out. Where lives have gaps, each section is first made as large as it can be without
a new conflict, for a set of buffers that conflict pairwise is all the search wants to know.

The unit is the greatest number that divides every size, where alignments divide it in turn; else it is the greatest
that divides the alignments, and sizes are rounded up to it: everything lies at multiples of it, so nothing can begin in
the bytes that are lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np

from assay.lower.memory.problem import SAFE, Array, IndexedProblem
from assay.semantics.deadline import NEVER, Deadline
from assay.semantics.sets import ones

ALL_PAIRS = 3000
"""Up to how many sections each is compared with each other one, where lives have gaps."""


@dataclass(frozen=True)
class Reduced:
    """Buffers of one pool. Arrays go by buffer, but for `low`, `high` (half-open runs of sections) and `owner`: by run.

    The runs of buffer i are `first[i]` up to `first[i + 1]`; `runs` is False where each buffer has just one. `fixed` is
    an offset in units, -1 where there is none. `kind` is equal for buffers that can be exchanged;
    `time` is how many positions a buffer is live at, `load` the sizes in each section.
    """

    members: tuple[int, ...]
    nbytes: tuple[int, ...]
    unit: int
    whole: bool
    size: Array
    align: Array
    fixed: Array
    low: Array
    high: Array
    owner: Array
    first: Array
    sections: int
    runs: bool
    aligned: bool
    pinned: bool
    kind: tuple[int, ...]
    time: tuple[int, ...]
    load: Array
    dtype: Any

    def last(self, capacity: int) -> Array:
        """The last offset, in units, at which each buffer ends within a number of bytes; negative: it does not."""
        found: Array = np.array([(capacity - n) // self.unit for n in self.nbytes], self.dtype)
        return found

    def rounded(self, capacity: int) -> int:
        """The largest size of a pool, up to `capacity`, that a plan can have."""
        return capacity - capacity % self.unit if self.whole else capacity

    def bound(self, deadline: Deadline = NEVER) -> int:
        """Bytes that no plan can do without: the most in one section. Late: the time is up."""
        most = 0
        for k in range(self.sections):
            deadline.turn()
            inside = self.owner[(self.low <= k) & (k < self.high)].tolist()
            lost = max(int(self.size[i]) * self.unit - self.nbytes[i] for i in inside)  # on top, nothing is lost
            most = max(most, int(self.load[k]) * self.unit - lost)
        ends = [int(f) * self.unit + n for f, n in zip(self.fixed.tolist(), self.nbytes, strict=True) if f >= 0]
        return max([most, *ends], default=0)


def reduced_problem(layout: IndexedProblem, members: Sequence[int]) -> Reduced:
    """The problem of some buffers in one pool. All must have bytes and a life. Late: the time is up."""
    buffers = [layout.buffers[i] for i in members]
    nbytes = tuple(layout.nbytes[i] for i in members)
    fixed = [layout.fixed.get(i, -1) for i in members]
    offsets = [f for f in fixed if f >= 0]
    unit = gcd(*nbytes, *offsets) or 1
    whole = all(unit % b.alignment == 0 for b in buffers)
    if not whole:
        unit = gcd(*(b.alignment for b in buffers))
    sections = _sections(layout, members)
    runs: list[list[tuple[int, int]]] = [[] for _ in members]
    for k, live in enumerate(sections):
        for i in ones(live):
            layout.deadline.turn()
            own = runs[i]
            if own and own[-1][1] == k:
                own[-1] = own[-1][0], k + 1
            else:
                own.append((k, k + 1))
    size = [-(-n // unit) for n in nbytes]
    align = [1 if whole else b.alignment // unit for b in buffers]
    dtype: Any = np.int64 if sum(size) + sum(align) + max(fixed, default=0) < SAFE else object
    kinds: dict[object, int] = {}
    kind = tuple(
        kinds.setdefault((tuple(runs[i]), nbytes[i], align[i], fixed[i] if fixed[i] >= 0 else -1), len(kinds))
        for i in range(len(members))
    )
    low = np.array([a for own in runs for a, _ in own], np.int64)
    high = np.array([b for own in runs for _, b in own], np.int64)
    first = np.cumsum([0, *(len(own) for own in runs)])
    size_array = np.array(size, dtype)
    load = np.zeros(len(sections), dtype)
    for i, own in enumerate(runs):
        for a, b in own:
            load[a:b] += size[i]
    return Reduced(
        members=tuple(members),
        nbytes=nbytes,
        unit=unit,
        whole=whole,
        size=size_array,
        align=np.array(align, dtype),
        fixed=np.array([f // unit if f >= 0 else -1 for f in fixed], dtype),
        low=low,
        high=high,
        owner=np.repeat(np.arange(len(members)), np.diff(first)),
        first=first,
        sections=len(sections),
        runs=any(len(own) > 1 for own in runs),
        aligned=any(a > 1 for a in align),
        pinned=bool(offsets),
        kind=kind,
        time=tuple(sum(stop - start for start, stop in b.live) for b in buffers),
        load=load,
        dtype=dtype,
    )


def _sections(layout: IndexedProblem, members: Sequence[int]) -> list[int]:
    """Sets of buffers that are live together, as bits; each maximal, as far as they are compared."""
    deadline = layout.deadline
    events: list[tuple[int, bool, int]] = []
    gaps = False
    for at, i in enumerate(members):
        live = layout.buffers[i].live
        gaps |= len(live) > 1
        for start, stop in live:
            events += [(start, True, at), (stop, False, at)]
    events.sort()  # at one position, what ends comes before what starts
    found: list[int] = []
    now = 0
    grown = False
    for _, starts, at in events:
        deadline.turn()
        if not starts and grown:
            found.append(now)  # only a set that something is about to leave can be maximal
        now = now | 1 << at if starts else now & ~(1 << at)
        grown = starts
    return _maximal(_grown(list(dict.fromkeys(found)), len(members), deadline), deadline) if gaps else found


def _grown(sections: list[int], n: int, deadline: Deadline) -> list[int]:
    """Sections, each with further buffers that conflict with everything in it."""
    beside = [0] * n
    for live in sections:
        for i in ones(live):
            deadline.turn()
            beside[i] |= live
    found = []
    for live in sections:
        common = (1 << n) - 1
        for i in ones(live):
            deadline.turn()
            common &= beside[i]
        common &= ~live
        while common:
            bit = common & -common
            live |= bit
            common &= beside[bit.bit_length() - 1] & ~bit
        found.append(live)
    return found


def _maximal(sections: list[int], deadline: Deadline) -> list[int]:
    """The sections that are not part of another one, in order; of very many, only equal ones are left out."""
    each = list(dict.fromkeys(sections))
    if len(each) > ALL_PAIRS:
        return each
    chosen: list[int] = []
    for live in sorted(each, key=lambda x: -x.bit_count()):
        deadline.check()
        if not any(live & c == live for c in chosen):
            chosen.append(live)
    kept = set(chosen)
    return [live for live in each if live in kept]

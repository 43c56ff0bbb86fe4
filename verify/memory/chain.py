"""What lies next beneath each buffer, as a witness that no two share a byte (specs/verify.md, "Memory plans").

At a position the live buffers with bytes, by offset, form a chain: each lies next beneath one other, or next beneath
the end of the pool. The sweep here finds these spells, and none of it is trusted. A text states of them

- *order*: the spells beneath one buffer part from one another, so at a position one buffer at most is next beneath it;
- *covered*: at every position of its life a buffer is next beneath one that is live there and begins where it ends or
  later, or beneath the end of the pool.

From that alone no two share a byte. Going up from a live buffer, each step is to one that begins no lower than the last
one ends, so all ways end at the end of the pool. No two ways meet, for only one buffer is next beneath any. So there is
one way, all that is live is on it, and each on it ends before those further up begin. A spell that is left out, or too
short, leaves one uncovered: the list is not believed.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assay.semantics.deadline import NEVER, Deadline
from assay.semantics.live_positions import union
from assay.semantics.memory import Interval

TOP = -1
"""What stands for the end of the pool among the numbers of buffers."""


@dataclass(frozen=True)
class Spell:
    """From a position up to another, buffer `below` is the next beneath; `number` of `above`'s spells, from 0."""

    above: int
    number: int
    start: int
    stop: int
    below: int

    @property
    def name(self) -> str:
        """The name of the spell in the text of the query."""
        return f"{'t' if self.above == TOP else self.above}_{self.number}"


@dataclass(frozen=True)
class Chain:
    """The spells beneath each buffer, in order, and those in which each is beneath another."""

    beneath: Mapping[int, Sequence[Spell]]
    above: Mapping[int, Sequence[Spell]]


def adjacency(lives: Sequence[Sequence[Interval]], offsets: Sequence[int], deadline: Deadline = NEVER) -> Chain:
    """The spells of buffers with these lives and offsets, all of which have bytes. Late: the time is up."""
    events = [
        event
        for i, live in enumerate(lives)
        for start, stop in union(live)
        for event in ((start, True, i), (stop, False, i))
    ]
    events.sort()  # what ends at a position makes room for what begins there
    live: list[tuple[int, int]] = []
    since: dict[int, tuple[int, int]] = {}  # by what is above: from when, and what is next beneath
    beneath: dict[int, list[Spell]] = {}
    above: dict[int, list[Spell]] = {}

    def beneath_now(at: int, over: int, under: int | None) -> None:
        """From here on something else, or nothing, is next beneath one."""
        if over in since and since[over][0] < at:
            start, before = since[over]
            spells = beneath.setdefault(over, [])
            spells.append(Spell(over, len(spells), start, at, before))
            above.setdefault(before, []).append(spells[-1])
        since.pop(over, None)
        if under is not None:
            since[over] = at, under

    for at, begins, i in events:
        deadline.turn()
        key = offsets[i], i
        if begins:
            insort(live, key)
        k = bisect_left(live, key)
        over = live[k + 1][1] if k + 1 < len(live) else TOP
        under = live[k - 1][1] if k > 0 else None
        if begins:
            beneath_now(at, over, i)
            beneath_now(at, i, under)
        else:
            del live[k]
            beneath_now(at, i, None)
            beneath_now(at, over, under)
    return Chain(beneath, above)

"""Placing buffers one after another, each at the lowest offset that a rule allows (specs/lower.md)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Literal, TypeAlias

import numpy as np

from assay.lower.memory.problem import Array, IndexedProblem
from assay.semantics.memory import Place, Plan

Rule: TypeAlias = Literal["above", "first"]
"""Above all that it conflicts with, or in the first gap between them. What was placed by hand is an obstacle in
both."""


class PlacedBuffers:
    """Offsets and pools of the buffers that have been placed; `pool[i]` is -1 where i has not been.

    The limits of the pools in `open` do not count.
    """

    def __init__(self, layout: IndexedProblem, rule: Rule, open: Collection[int] = ()) -> None:
        self.layout = layout
        self.rule = rule
        self.open = open
        self.offset: Array = np.zeros(len(layout.buffers), layout.dtype)
        self.pool: Array = np.full(len(layout.buffers), -1, np.int64)
        self.free: Array = np.ones(len(layout.buffers), bool)
        for i, offset in layout.fixed.items():
            self.offset[i] = offset
            self.pool[i] = layout.choices[i][0]
            self.free[i] = False

    def put_all(self, order: Iterable[int]) -> None:
        """Place buffers in this order, but those that lie somewhere; what fits nowhere is left out. Late: the time is
        up."""
        turn = self.layout.deadline.turn
        for i in order:
            turn()
            if self.pool[i] < 0:
                self.put(i)

    def stuck(self) -> list[int]:
        """What fits nowhere, after everything has been tried."""
        return [int(i) for i in np.flatnonzero(self.pool < 0)]

    def put(self, index: int) -> None:
        """Place a buffer in the first of its pools where it fits, if there is one."""
        conflicts = self.layout.conflicts.of(index, self.layout.deadline)
        there = self.pool[conflicts]
        for pool in self.layout.choices[index]:
            offset = self.lowest(index, conflicts[there == pool])
            limit = None if pool in self.open else self.layout.limits[pool]
            if limit is None or offset + self.layout.nbytes[index] <= limit:
                self.offset[index] = offset
                self.pool[index] = pool
                return

    def lowest(self, index: int, placed: Array) -> int:
        """The lowest aligned offset that the rule allows beside buffers that have been placed in the same pool."""
        sizes, size, step = self.layout.sizes, self.layout.nbytes[index], self.layout.buffers[index].alignment
        base = 0
        if self.rule == "above" and len(placed):
            free = placed[self.free[placed]]
            base = int((self.offset[free] + sizes[free]).max()) if len(free) else 0
            placed = placed[~self.free[placed]]
        base = -(-base // step) * step
        if not len(placed):
            return base
        low = self.offset[placed]
        order = np.argsort(low, kind="stable")
        low = low[order]
        tops = np.maximum.accumulate(np.maximum(low + sizes[placed[order]], base))
        if step > 1:
            tops = -(-tops // step) * step
        if base + size <= low[0]:
            return base
        fits = tops[:-1] + size <= low[1:]
        at = int(np.argmax(fits)) if len(fits) and fits.any() else -1
        return int(tops[at])

    def sizes(self) -> list[int]:
        """The size of each pool, for what has been placed."""
        ends = self.offset + self.layout.sizes
        found = []
        for k in range(len(self.layout.pools)):
            inside = ends[self.pool == k]
            found.append(int(inside.max()) if len(inside) else 0)
        return found

    def offsets(self) -> dict[int, int]:
        """The offset of each buffer."""
        return dict(enumerate(map(int, self.offset)))

    def score(self) -> tuple[int, ...]:
        """What a better plan has less of: bytes that fit nowhere, bytes in the least wanted pool, in the one before."""
        return (sum(self.layout.nbytes[i] or 1 for i in self.stuck()), *reversed(self.sizes()))

    def plan(self, planner: str) -> Plan:
        """The plan, when everything has been placed."""
        return make_plan(self.layout, self.pool.tolist(), [int(o) for o in self.offset], planner)


def make_plan(
    layout: IndexedProblem, pools: Sequence[int], offsets: Sequence[int], planner: str, bound: int = 0
) -> Plan:
    """A plan with these pools and offsets, and what is known of it: its bound is the most bytes live at once in the
    first pool that holds anything, or `bound` where that is larger."""
    sizes = [0] * len(layout.pools)
    for i, (pool, offset) in enumerate(zip(pools, offsets, strict=True)):
        sizes[pool] = max(sizes[pool], offset + layout.nbytes[i])
    first = next((k for k, size in enumerate(sizes) if size), None)
    if first is not None:
        bound = max(bound, layout.bound(i for i, pool in enumerate(pools) if pool == first))
    places = {
        b.name: Place(layout.pools[pool].name, offset)
        for b, pool, offset in zip(layout.buffers, pools, offsets, strict=True)
    }
    named = {p.name: size for p, size in zip(layout.pools, sizes, strict=True)}
    return Plan(places, named, planner, bound, first is None or sizes[first] == bound)

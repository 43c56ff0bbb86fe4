"""Storage tokens that grow, as in Relay's GraphPlanMemory and Relax's StaticPlanBlockMemory (specs/lower.md).

A token is a piece of a pool that buffers have one after another; it is as large as the largest of them. Buffers come in
the order of their beginnings. Sizes of tokens are known at the end only: then they are laid one after another, so that
each buffer has the offset of its token. Near linear, as long as no limit is near.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from heapq import heappop, heappush
from math import lcm

import numpy as np

from assay.lower.memory.greedy import once
from assay.lower.memory.options import Options
from assay.lower.memory.placing import PlacedBuffers
from assay.lower.memory.problem import IndexedProblem
from assay.semantics.memory import BufferInfo, Interval, Plan, Problem

FACTOR = 16
"""A buffer takes a token of up to so many times its bytes, or lets one grow that has so small a part of them."""


def storage_tokens(problem: Problem, options: Options) -> Plan:
    """Each buffer in a token that is free when it begins to live. Invalid: one fits nowhere."""
    return once(problem, options, by_tokens, "tokens")


def by_tokens(layout: IndexedProblem, open: frozenset[int] = frozenset()) -> PlacedBuffers:
    """What `tokens` places, without the limits of the pools in `open`. What was placed by hand is in no token."""
    placement = PlacedBuffers(layout, "first")
    rows = [Tokens(layout, k, None if k in open else limit) for k, limit in enumerate(layout.limits)]
    offsets: list[int] = placement.offset.tolist()
    taken: list[tuple[int, int, int]] = []  # when a token is free again, its pool, its number
    held: dict[int, int] = {}
    spans = [span(b) for b in layout.buffers]
    for i in sorted(range(len(spans)), key=lambda i: spans[i][0]):
        layout.deadline.turn()
        while taken and taken[0][0] <= spans[i][0]:
            _, k, free = heappop(taken)
            rows[k].give_back(free)
        if i in layout.fixed:
            continue
        alone = not layout.nbytes[i] or not layout.buffers[i].live  # shares its bytes with all others: it lies at 0
        for k in layout.choices[i]:
            limit = rows[k].limit
            if limit is not None and layout.nbytes[i] > limit:
                continue
            number = None if alone else rows[k].take(layout.nbytes[i], layout.buffers[i].alignment)
            if number is not None:
                held[i] = number
                heappush(taken, (spans[i][1], k, number))
            if alone or number is not None:
                placement.pool[i] = k
                break
    laid = [row.lay()[0] for row in rows]
    for i, number in held.items():
        offsets[i] = laid[placement.pool[i]][number]
    placement.offset = np.array(offsets, object)
    return placement


def span(buffer: BufferInfo) -> Interval:
    """When a buffer takes its token, and when it gives it back: what comes back after a gap has kept it."""
    return (buffer.live[0][0], buffer.live[-1][1]) if buffer.live else (0, 0)


class Tokens:
    """The tokens of one pool, numbered as they are made. `limit` is None where it does not count."""

    def __init__(self, layout: IndexedProblem, pool: int, limit: int | None) -> None:
        self.limit = limit
        self.step = layout.pools[pool].alignment
        self.size: list[int] = []
        self.alignment: list[int] = []
        self.free: list[tuple[int, int]] = []  # size and number, in order
        hands = (i for i in layout.fixed if layout.choices[i][0] == pool and layout.nbytes[i])
        self.hands = sorted((layout.fixed[i], layout.fixed[i] + layout.nbytes[i]) for i in hands)
        self.least = 0
        self.most = _up(max((high for _, high in self.hands), default=0), self.step)
        """The tokens end between these: without what alignment loses, and with each at a multiple of `step`."""

    def take(self, size: int, alignment: int) -> int | None:
        """The number of the token that a buffer gets; None: the pool has no room."""
        for number in self._choices(size):
            if number is None:  # a new one: no bytes, and it grows
                self.size.append(0)
                self.alignment.append(1)
                if self.grow(len(self.size) - 1, size, alignment):
                    return len(self.size) - 1
                self.size.pop()
                self.alignment.pop()
            else:
                before = self.size[number]
                if self.grow(number, size, alignment):
                    del self.free[bisect_left(self.free, (before, number))]
                    return number
        return None

    def _choices(self, size: int) -> Iterator[int | None]:
        """Within the factor the least that is large enough, else the largest; then a new one (None); then any, by the
        same rule: where a limit leaves no room for a new one, the factor does not count."""
        at = bisect_left(self.free, (size, 0))
        both = [*self.free[at : at + 1], *self.free[max(at - 1, 0) : at]]
        yield from [n for have, n in both if size // FACTOR <= have <= size * FACTOR][:1]
        yield None
        yield from (n for _, n in both)

    def grow(self, number: int, size: int, alignment: int) -> bool:
        """Let a token hold a buffer. False: there is no room, and it stays as it is."""
        before = self.size[number], self.alignment[number]
        after = max(before[0], size), lcm(before[1], alignment)
        if after == before:
            return True
        self._set(number, *after)
        limit = self.limit
        if limit is None or self.most <= limit or (self.least <= limit and self.lay()[1] <= limit):
            return True
        self._set(number, *before)
        return False

    def _set(self, number: int, size: int, alignment: int) -> None:
        self.least += size - self.size[number]
        self.most += _up(size, self.step) - _up(self.size[number], self.step)
        self.size[number], self.alignment[number] = size, alignment

    def give_back(self, number: int) -> None:
        """The token is free again."""
        insort(self.free, (self.size[number], number))

    def lay(self) -> tuple[list[int], int]:
        """The offset of each token, one after another around what was placed by hand, and where the last one ends.

        No token comes before an earlier one, so a token that grows never lets the last one end lower: limits that a
        plan without them needs are enough.
        """
        offsets, end, passed = [], 0, 0
        for size, alignment in zip(self.size, self.alignment, strict=True):
            at = _up(end, alignment)
            while passed < len(self.hands) and self.hands[passed][0] < at + size:
                at = max(at, _up(self.hands[passed][1], alignment))
                passed += 1
            offsets.append(at)
            end = at + size
        return offsets, end


def _up(number: int, step: int) -> int:
    return -(-number // step) * step

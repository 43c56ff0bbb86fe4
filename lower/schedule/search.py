"""Orders of blocks in one segment with the least peak: exact search, beam, bisection (specs/lower.md, "schedule").

A state is the set of blocks that have run, as bits; its live bytes depend on the set alone. They are submodular: a step
frees at least as much after more has run. So a step that fits under the bound and leaves no more bytes than before is
taken at once, and nothing else is tried from there. Backwards in time the same holds for the step that comes last.
Effort is counted in steps tried, never in time, so that every run gives the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush, nsmallest
from typing import Any


@dataclass(frozen=True)
class Puzzle:
    """A segment for the search. Blocks are numbered from 0; `start` and `end` bytes are live before and after all.

    A block is a row of parts (bytes needed during it, bytes it adds, shared tensors that it may free). A shared tensor
    is (the blocks that read it as bits, its bytes): the last of them to run frees it.
    """

    parts: Sequence[Sequence[tuple[int, int, Sequence[tuple[int, int]]]]]
    before: Sequence[Sequence[int]]
    after: Sequence[Sequence[int]]
    start: int
    end: int

    @property
    def cost(self) -> int:
        """The effort of one step: sets of many blocks are slower and larger."""
        return 1 + len(self.parts) // 256

    def step(self, done: int, live: int, block: int) -> tuple[int, int]:
        """The most bytes live while `block` runs after `done`, and those live afterwards."""
        done |= 1 << block
        most = 0
        for hill, net, reads in self.parts[block]:
            if live + hill > most:
                most = live + hill
            live += net
            for readers, size in reads:
                if not readers & ~done:
                    live -= size
        return most, live

    def undo(self, done: int, live: int, block: int) -> tuple[int, int]:
        """The same backwards: the most bytes live while `block` runs as the last of `done`, and those live before."""
        for _, net, reads in self.parts[block]:
            live -= net
            for readers, size in reads:
                if not readers & ~done:
                    live += size
        return self.step(done & ~(1 << block), live, block)[0], live


@dataclass(frozen=True)
class Outcome:
    """An order, if one below the cap was found, its peak, a peak that none is below, and the effort spent."""

    order: list[int] | None
    peak: int
    bound: int
    spent: int


@dataclass(frozen=True)
class Walk:
    """One direction through the states of a puzzle."""

    move: Callable[[int, int, int], tuple[int, int]]
    next: Sequence[Sequence[int]]
    needs: Sequence[int]
    """For each block the blocks that come before it in this direction, as bits."""
    live: int
    backward: bool

    @property
    def first(self) -> tuple[int, ...]:
        """The blocks that need no other, which may come first in this direction."""
        return tuple(i for i, need in enumerate(self.needs) if not need)

    def moves(self, gone: int, live: int, ready: tuple[int, ...], most: int) -> tuple[list[tuple[int, int, int]], int]:
        """For each block that is ready what it leaves live, its peak, and the block; and how many were tried. One that
        leaves no more than there is, with a peak of at most `most`, is as good as any: it alone is given."""
        found: list[tuple[int, int, int]] = []
        for tried, block in enumerate(ready, 1):
            high, left = self.move(gone, live, block)
            if left <= live and high <= most:
                return [(left, high, block)], tried
            found.append((left, high, block))
        return found, len(ready)

    def opened(self, gone: int, ready: tuple[int, ...], block: int) -> tuple[int, ...]:
        """What is ready once `block` has gone too; `gone` counts it."""
        rest = tuple(i for i in ready if i != block)
        return rest + tuple(i for i in self.next[block] if not self.needs[i] & ~gone)


def walk(puzzle: Puzzle, backward: bool) -> Walk:
    """The walk from nothing to all, or back."""
    if not backward:
        return Walk(puzzle.step, puzzle.after, [_bits(b) for b in puzzle.before], puzzle.start, False)
    everything = (1 << len(puzzle.parts)) - 1

    def move(gone: int, now: int, block: int) -> tuple[int, int]:
        return puzzle.undo(everything & ~gone, now, block)

    return Walk(move, puzzle.before, [_bits(a) for a in puzzle.after], puzzle.end, True)


def _bits(blocks: Sequence[int]) -> int:
    return sum(1 << b for b in blocks)


def search(puzzle: Puzzle, low: int, cap: int, effort: int, backward: bool = False) -> Outcome:
    """The order of the least peak if that is below `cap`; peaks up to `low` are all alike.

    States are visited by the least peak that reaches them, the deepest first. What is left when the effort ends is
    still a bound: every state that a lower peak reaches has been visited.
    """
    way = walk(puzzle, backward)
    everything = (1 << len(puzzle.parts)) - 1
    came: dict[int, tuple[int, int]] = {0: (0, -1)}
    stack: list[tuple[int, int, tuple[int, ...], int]] = [(0, way.live, way.first, -1)]
    later: list[tuple[int, int, int, int, tuple[int, ...], int, int]] = []
    bound, spent, count, cost = low, 0, 0, puzzle.cost
    while spent <= effort:
        if not stack:
            if not later:
                return Outcome(None, cap, cap, spent)
            high, _, gone, live, ready, parent, block = heappop(later)
            if gone not in came:
                bound = max(bound, high)
                came[gone] = parent, block
                stack.append((gone, live, ready, block))
            continue
        gone, live, before, last = stack.pop()
        if gone == everything:
            order = _path(came, gone)
            return Outcome(order if backward else order[::-1], bound, bound, spent)
        ready = way.opened(gone, before, last) if last >= 0 else before
        moves, tried = way.moves(gone, live, ready, bound)
        spent += cost * tried
        moves.sort(reverse=True)
        for left, high, block in moves:
            reached = gone | 1 << block
            if reached in came or high >= cap:
                continue
            if high <= bound:
                came[reached] = gone, block
                stack.append((reached, left, ready, block))
            else:
                count -= 1  # of equal peaks the newest first
                heappush(later, (high, count, reached, left, ready, gone, block))
    return Outcome(None, cap, bound, spent)


def _path(came: dict[int, tuple[int, int]], state: int) -> list[int]:
    """The blocks on the way to a state, the last first."""
    order = []
    while state:
        state, block = came[state]
        order.append(block)
    return order


def beam(puzzle: Puzzle, low: int, cap: int, width: int, effort: int, backward: bool = False) -> Outcome:
    """A good order: level by level, only the `width` best states of each are kept."""
    way = walk(puzzle, backward)
    states: list[tuple[int, int, int, tuple[int, ...], Any]] = [(low, way.live, 0, way.first, None)]
    spent, cost = 0, puzzle.cost
    for _ in puzzle.parts:
        found: dict[int, tuple[int, int, int, tuple[int, ...], Any, int]] = {}
        for peak, live, gone, ready, path in states:
            moves, tried = way.moves(gone, live, ready, peak)
            spent += cost * tried
            for left, high, block in moves:
                reached = gone | 1 << block
                worst = max(peak, high)
                if worst < cap and (reached not in found or (worst, left) < found[reached][:2]):
                    found[reached] = worst, left, reached, ready, path, block
            if spent > effort:
                return Outcome(None, cap, low, spent)
        best = nsmallest(width, found.values(), key=lambda s: s[:3])
        states = [(w, left, r, way.opened(r, ready, b), (path, b)) for w, left, r, ready, path, b in best]
        if not states:
            return Outcome(None, cap, low, spent)
    peak, _, _, _, path = states[0]
    order = []
    while path is not None:
        path, block = path
        order.append(block)
    return Outcome(order if backward else order[::-1], peak, low, spent)


WIDTHS = (1, 8, 64)
"""Widths of beams, tried one after another."""


def best_order(puzzle: Puzzle, low: int, cap: int, effort: int) -> Outcome:
    """The best order below `cap` that can be found, both ways through the states; exact if its peak is the bound."""
    if low >= cap:
        return Outcome(None, cap, cap, 0)
    spent, bound = 0, low
    best = Outcome(None, cap, low, 0)
    for share, backward in ((16, False), (16, True), (3, False), (3, True)):
        found = search(puzzle, bound, cap, effort // share, backward)
        spent += found.spent
        bound = max(bound, found.bound)
        if found.order is not None or bound >= cap:
            return Outcome(found.order, found.peak, bound, spent)
    for width in WIDTHS:
        for backward in (False, True):
            found = beam(puzzle, bound, best.peak, width, effort // 48, backward)
            spent += found.spent
            best = found if found.order is not None else best
    below = bound
    while best.peak - below > 1 + best.peak // 256:
        middle = (below + best.peak) // 2
        tries = [search(puzzle, middle, best.peak, effort // 256, backward) for backward in (False, True)]
        spent += sum(t.spent for t in tries)
        good = min((t for t in tries if t.order is not None), key=lambda t: t.peak, default=None)
        below, best = (below, good) if good is not None else (middle, best)
    return Outcome(best.order, best.peak, bound, spent)

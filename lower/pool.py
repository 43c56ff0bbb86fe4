"""Offsets for the slots of a program in one pool (specs/lower.md, "pool").

Buffers whose lives overlap get disjoint bytes. The planner places buffers one by one, each at the lowest offset where
it fits between those it conflicts with, in several orders, keeps the smallest pool, and improves on it by local
search. Nothing here is trusted: the
plan is proved afterwards (`assay.verify.plan`).
"""

from __future__ import annotations

import random
from bisect import insort
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from assay.semantics.module import Module, Slot


def plan(module: Module) -> Module:
    """The module with an offset for every workspace slot of `main`, and the size of the pool."""
    program = module.program
    work = [s for s in program.placed("workspace")]
    offsets, size = place(work)
    slots = {n: replace(s, offset=offsets.get(n, s.offset)) for n, s in program.slots.items()}
    return module.with_(main=replace(program, slots=slots, sizes={program.pools[0].name: size}))


def lower_bound(slots: Iterable[Slot]) -> int:
    """The most bytes live at once: no pool can be smaller."""
    change: dict[int, int] = {}
    for s in slots:
        change[s.start] = change.get(s.start, 0) + s.nbytes
        change[s.stop] = change.get(s.stop, 0) - s.nbytes
    live = most = 0
    for _, delta in sorted(change.items()):
        live += delta
        most = max(most, live)
    return most


def place(slots: Sequence[Slot]) -> tuple[dict[str, int], int]:
    """Offsets by name, and the size of the pool: the best of several orders of placement, then made better."""
    bound = lower_bound(slots)
    best: tuple[dict[str, int], int] = {}, -1
    order = list(slots)
    for key in ORDERS:
        tried = sorted(slots, key=key)
        found = first_fit(tried)
        if best[1] < 0 or found[1] < best[1]:
            best, order = found, tried
        if best[1] <= bound:
            return best
    return climb(order, best, bound)


WORK = 20_000_000
"""How many pairs of slots `climb` may look at, so that a plan takes seconds at most."""


def climb(order: list[Slot], best: tuple[dict[str, int], int], bound: int) -> tuple[dict[str, int], int]:
    """Better offsets by local search: a slot at the top of the pool is placed earlier. The same on every run."""
    rng = random.Random(0)
    for _ in range(min(500, WORK // max(1, len(order)) ** 2)):
        if best[1] <= bound:
            break
        top = [i for i, s in enumerate(order) if best[0][s.name] + s.nbytes == best[1]]
        moved = order.copy()
        slot = moved.pop(rng.choice(top))
        moved.insert(rng.randrange(len(order)), slot)
        found = first_fit(moved)
        if found[1] <= best[1]:
            best, order = found, moved
    return best


ORDERS: tuple[Callable[[Slot], tuple[float, ...]], ...] = (
    lambda s: (-s.nbytes, s.start, s.stop),
    lambda s: (-s.nbytes * (s.stop - s.start), s.start),
    lambda s: (s.start, -s.nbytes),
    lambda s: (s.start - s.stop, -s.nbytes, s.start),
    lambda s: (-s.stop, -s.nbytes),
)
"""Largest first, largest area first, by time, longest first, last to die first."""


def first_fit(slots: Iterable[Slot]) -> tuple[dict[str, int], int]:
    """Each slot at the lowest aligned offset that is free throughout its life, in the order given."""
    offsets: dict[str, int] = {}
    placed: list[tuple[int, int, int, int]] = []  # offset, end, start, stop; by offset
    size = 0
    for s in slots:
        at = 0
        for low, high, start, stop in placed:
            if start >= s.stop or s.start >= stop:
                continue
            if at + s.nbytes <= low:
                break
            at = max(at, -(-high // s.alignment) * s.alignment)
        offsets[s.name] = at
        if s.nbytes:
            insort(placed, (at, at + s.nbytes, s.start, s.stop))
        size = max(size, at + s.nbytes)
    return offsets, size

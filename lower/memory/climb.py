"""Hill climbing over orders of first fit (specs/lower.md). The plan is the best that was met, not the last."""

from __future__ import annotations

import random

import numpy as np

from assay.lower.memory.greedy import best_first_fit
from assay.lower.memory.limits import refuse
from assay.lower.memory.options import Options
from assay.lower.memory.placing import PlacedBuffers
from assay.lower.memory.problem import IndexedProblem
from assay.semantics.deadline import Late
from assay.semantics.memory import Plan, Problem

ATTEMPTS = 500
WORK = 200_000
"""How many attempts there are, and how many placements of a buffer, unless told otherwise: seconds at most."""
WORSE = 0.02
"""How often a worse order is kept, to get out of a hollow."""


def hill_climb(problem: Problem, options: Options) -> Plan:
    """First fit, made better by placing earlier what fits nowhere, what lies at the top, or what lies beneath that."""
    layout = IndexedProblem(problem, options.deadline)
    found = climb(layout, best_first_fit(layout), options)
    if found.stuck():
        refuse(layout, "hill-climb", lambda open: climb(layout, best_first_fit(layout, open), options))
    return found.plan("hill-climb")


def climb(layout: IndexedProblem, start: tuple[PlacedBuffers, list[int]], options: Options) -> PlacedBuffers:
    """The best placement that is met, `start` among them. Pools that are open there stay so."""
    state, order = start
    rng = random.Random(options.seed)
    n = len(order)
    attempts = min(ATTEMPTS, WORK // max(1, n)) if options.effort is None else options.effort // max(1, n)
    bound = layout.bound(range(n))
    goal = bound if options.capacity is None else max(bound, options.capacity)
    score = best_score = state.score()
    best = state.offset.copy(), state.pool.copy()
    for attempt in range(attempts if n > 1 else 0):
        if len(layout.pools) == 1 and best_score <= (0, goal):
            break
        if layout.deadline.over:
            break
        moved = order.copy()
        low = _move(layout, state, moved, rng)
        before = state.offset.copy(), state.pool.copy()
        again = [i for i in moved[low:] if state.free[i]]
        state.pool[again] = -1
        try:
            state.put_all(again)
        except Late:
            break
        after = state.score()
        if after <= score or rng.random() < WORSE:
            order, score = moved, after
            if score < best_score:
                best_score, best = score, (state.offset.copy(), state.pool.copy())
                if options.progress is not None:
                    options.progress(f"hill climbing, attempt {attempt}: {sum(score[1:])} bytes")
        else:
            state.offset, state.pool = before
    state.offset, state.pool = best
    return state


def _move(layout: IndexedProblem, state: PlacedBuffers, order: list[int], rng: random.Random) -> int:
    """Move a buffer to an earlier place in the order; the first index at which the order differs."""
    sizes = state.sizes()
    pool = max((k for k, size in enumerate(sizes) if size), default=0)
    ends = state.offset + layout.sizes
    tops = state.stuck() or [int(i) for i in np.flatnonzero((state.pool == pool) & (ends == sizes[pool]))]
    chosen = rng.choice(tops)
    for _ in range(rng.choice((0, 0, 1, 2))):  # one beneath it: a neighbour, or a neighbour of that
        beside = layout.conflicts.of(chosen)
        if len(beside):
            chosen = int(beside[rng.randrange(len(beside))])
    at = order.index(chosen)
    to = rng.randrange(at) if at else rng.randrange(len(order))
    order.insert(to, order.pop(at))
    return min(at, to)

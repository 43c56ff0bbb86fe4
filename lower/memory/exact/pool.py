"""One pool for everything: quick planners, then the search, then both in turns (specs/lower.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from assay.lower.memory.climb import ATTEMPTS, climb
from assay.lower.memory.exact.minimum import SHARE, FoundOffsets, Minimum
from assay.lower.memory.exact.search import Budget
from assay.lower.memory.greedy import best_first_fit, by_conflicts, by_size
from assay.lower.memory.options import Options
from assay.lower.memory.placing import PlacedBuffers
from assay.lower.memory.problem import IndexedProblem
from assay.semantics.deadline import Late

EFFORT, EACH = 10_000_000, 40_000
"""Nodes if neither effort nor time is given: the first number divided by that of the buffers, at most the second."""


def budget_of(layout: IndexedProblem, options: Options) -> Budget:
    """What the options, or else the size of the problem, allow."""
    nodes = options.effort
    if nodes is None and options.deadline.endless:
        nodes = min(EACH, EFFORT // max(1, len(layout.buffers)))
    return Budget(nodes, options.deadline, None if options.progress is None else _ticking(options.progress))


def _ticking(tell: Callable[[str], None]) -> Callable[[], None]:
    return lambda: tell("")


def rest_of(options: Options, layout: IndexedProblem) -> Options:
    """Options for a climb: at most `ATTEMPTS` of effort for each buffer."""
    effort = None if options.effort is None else min(options.effort, ATTEMPTS * len(layout.buffers))
    return replace(options, effort=effort)


def least_size(layout: IndexedProblem, options: Options, budget: Budget) -> FoundOffsets:
    """The least size of the only pool of a layout, or the best that is found within the budget.

    The bound comes first: what a quick planner finds at it is the answer, and nothing else is made. Late: the time is
    up before there is any plan.
    """
    bound = layout.bound(range(len(layout.buffers)))
    start = best_first_fit(layout)
    first = _found(start[0], bound)
    if first is not None and first.size <= max(bound, options.capacity or 0):
        return first
    try:
        return _searched(layout, options, budget, start)
    except Late:
        if first is None:
            raise
        return first


def _searched(
    layout: IndexedProblem, options: Options, budget: Budget, start: tuple[PlacedBuffers, list[int]]
) -> FoundOffsets:
    """What a search finds that begins with a first fit. Late: the time is up before it has begun."""
    (limit,) = layout.limits
    search = Minimum(layout, range(len(layout.buffers)), limit, options.seed, options.capacity, options.progress)
    _offer(search, start[0])
    if search.settled:
        return search.result()
    try:
        for greedy in (by_size, by_conflicts):
            _offer(search, greedy(layout))
        if not search.settled:
            part = budget.part(SHARE)
            search.run(part)
            budget.used += part.used
        if not search.settled:
            _offer(search, climb(layout, start, rest_of(options, layout)))
    except Late:
        return search.result()
    return search.run(budget)


def _found(placement: PlacedBuffers, bound: int) -> FoundOffsets | None:
    """A placement as what is known; None: something is stuck."""
    if placement.stuck():
        return None
    return FoundOffsets(placement.offsets(), placement.sizes()[0], bound)


def _offer(search: Minimum, placement: PlacedBuffers) -> None:
    if not placement.stuck():
        search.offer(placement.offsets())

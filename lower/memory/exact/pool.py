"""One pool for everything: quick planners, then the search, then both in turns (specs/lower.md)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from assay.lower.memory.climb import ATTEMPTS, climb
from assay.lower.memory.exact.minimum import SHARE, Found, Minimum
from assay.lower.memory.exact.search import Budget
from assay.lower.memory.greedy import best_first_fit, by_conflicts, by_size
from assay.lower.memory.options import Options
from assay.lower.memory.placing import Placement
from assay.lower.memory.problem import Layout

EFFORT, EACH = 10_000_000, 40_000
"""Nodes if neither effort nor time is given: the first number divided by that of the buffers, at most the second."""


def budget_of(layout: Layout, options: Options) -> Budget:
    """What the options, or else the size of the problem, allow."""
    nodes = options.effort
    if nodes is None and options.time_limit is None:
        nodes = min(EACH, EFFORT // max(1, len(layout.buffers)))
    deadline = None if options.time_limit is None else time.monotonic() + options.time_limit
    return Budget(nodes, deadline, None if options.progress is None else _ticking(options.progress))


def _ticking(tell: Callable[[str], None]) -> Callable[[], None]:
    return lambda: tell("")


def rest_of(layout: Layout, options: Options, budget: Budget) -> Options:
    """Options for a climb within what is left of the time."""
    left = None if budget.deadline is None else max(0.0, budget.deadline - time.monotonic())
    effort = None if options.effort is None else min(options.effort, ATTEMPTS * len(layout.buffers))
    return replace(options, effort=effort, time_limit=left)


def least(layout: Layout, options: Options, budget: Budget) -> Found:
    """The least size of the only pool of a layout, or the best that is found within the budget."""
    (limit,) = layout.limits
    search = Minimum(layout, range(len(layout.buffers)), limit, options.seed, options.capacity, options.progress)
    if search.settled:
        return search.result()
    start = best_first_fit(layout)
    for placement in (start[0], by_size(layout), by_conflicts(layout)):
        _offer(search, placement)
    if not search.settled:
        part = budget.part(SHARE)
        search.run(part)
        budget.used += part.used
    if not search.settled:
        _offer(search, climb(layout, start, rest_of(layout, options, budget)))
    return search.run(budget)


def _offer(search: Minimum, placement: Placement) -> None:
    if not placement.stuck():
        search.offer(dict(enumerate(int(at) for at in placement.offset)))

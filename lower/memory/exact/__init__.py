"""The exact planner: heuristics from above, bounds from below, and a complete search between them (specs/lower.md).

One pool gets its least size. Several are filled by priority, and what comes out is compared with what the other
planners found: it is never worse than theirs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from assay.lower.memory.climb import climb
from assay.lower.memory.exact.filling import Filling
from assay.lower.memory.exact.pool import budget_of, least_size, rest_of
from assay.lower.memory.greedy import best_first_fit, by_conflicts, by_size
from assay.lower.memory.limits import message, refuse
from assay.lower.memory.options import Options
from assay.lower.memory.placing import make_plan
from assay.lower.memory.problem import IndexedProblem
from assay.semantics.deadline import Late
from assay.semantics.errors import Invalid
from assay.semantics.memory import Plan, Problem

NAME = "exact"


def exact(problem: Problem, options: Options) -> Plan:
    """The plan of the least size, or the best that was found; `optimal` says which it is. Invalid: nothing fits."""
    layout = IndexedProblem(problem, options.deadline)
    if not layout.buffers:
        return make_plan(layout, [], [], NAME)
    budget = budget_of(layout, options)
    (pool, *others), everything = layout.choices[0], range(len(layout.buffers))
    if not others and len(set(layout.choices)) == 1:
        found = least_size(layout.only(pool, everything), options, budget)
        if found.offsets is None:
            _refuse(layout, options, pool)
        return make_plan(layout, [pool] * len(everything), [found.offsets[i] for i in everything], NAME, found.bound)
    start = best_first_fit(layout)
    filling, done = Filling(layout, options, budget), False
    tried = [start[0]]
    try:
        done = filling.run()
        tried += [by_size(layout), by_conflicts(layout)]
        if not (done and filling.settled):
            tried.append(climb(layout, start, rest_of(options, layout)))
    except Late:
        pass  # the best so far
    best = min(tried, key=lambda placement: placement.score())
    if done and (filling.settled or filling.score() <= best.score()):
        offsets = [filling.offset[i] for i in range(len(layout.buffers))]
        return make_plan(layout, filling.pool, offsets, NAME, filling.bound)
    if best.stuck():
        refuse(layout, NAME, lambda open: climb(layout, best_first_fit(layout, open), rest_of(options, layout)))
    return best.plan(NAME)


def _refuse(layout: IndexedProblem, options: Options, pool: int) -> NoReturn:
    """Raise Invalid: nothing fits in the only pool, as far as the search has come. Says the least limit that would
    do."""
    name = layout.pools[pool].name
    wider = tuple(replace(p, limit=None) if p.name == name else p for p in layout.pools)
    plan = exact(Problem(layout.buffers, wider), replace(options, capacity=None))
    size = plan.sizes[name]
    assert isinstance(size, int)
    stuck = best_first_fit(layout)[0].stuck() or range(len(layout.buffers))
    first = max(stuck, key=lambda i: layout.nbytes[i])
    raise Invalid(message(layout, NAME, first, {pool: size}, plan.optimal), label="memory.C7")

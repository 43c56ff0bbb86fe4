"""Planners of memory: a problem becomes a plan (specs/lower.md).

    plan(problem)                                   # the exact search, within an effort that is the same everywhere
    plan(problem, "first-fit")                      # one of PLANNERS, by name
    plan(problem, my_own)                           # a function from a problem to a plan
    plan(problem, time_limit=60, seed=1)            # Options, as keywords

Nothing here is trusted: `assay.verify` proves plans. All planners know several pools with limits and fallback,
alignment, buffers placed by hand, gaps in lives, and integers of any size.
"""

from __future__ import annotations

from collections.abc import Callable

from assay.lower.memory.climb import hill_climb
from assay.lower.memory.exact import exact
from assay.lower.memory.greedy import first_fit, greedy_conflicts, greedy_size
from assay.lower.memory.options import Options, Planner, Progress
from assay.lower.memory.problem import check_rules
from assay.lower.memory.tokens import storage_tokens
from assay.semantics.deadline import Deadline, Late
from assay.semantics.errors import BudgetSpent, Invalid
from assay.semantics.memory import Plan, Problem
from assay.semantics.scalar.expression import Expr

PLANNERS: dict[str, Planner] = {
    "tokens": storage_tokens,
    "greedy-size": greedy_size,
    "greedy-conflicts": greedy_conflicts,
    "first-fit": first_fit,
    "hill-climb": hill_climb,
    "exact": exact,
}
"""The planners by name, the quickest first."""

__all__ = ["PLANNERS", "Options", "Planner", "Progress", "called", "plan"]


def plan(
    problem: Problem,
    planner: str | Callable[[Problem], Plan] = "exact",
    *,
    seed: int = 0,
    effort: int | None = None,
    time_limit: float | None = None,
    deadline: Deadline | None = None,
    capacity: int | None = None,
    progress: Progress | None = None,
) -> Plan:
    """A place for every buffer of `problem`, by the planner of a name or by a function. The keywords are `Options`.

    `time_limit`, in seconds, is a deadline from now on. BudgetSpent (memory.C9): it comes before there is a plan.

    Invalid: the problem breaks a rule, nothing fits, no planner has this name, or a function's plan does not give every
    buffer a place in one of its pools. That no two share a byte is not looked at: that is for `assay.verify`.
    """
    if not isinstance(planner, str):
        check_rules(problem)
        made = planner(problem)
        _require_complete(problem, made)
        return made
    until = deadline if deadline is not None else Deadline(time_limit)
    try:
        return called(planner)(problem, Options(seed, effort, until, capacity, progress))
    except Late:
        what = f"the time was up before {planner} had a plan for {len(problem.buffers)} buffers; give it more time"
        raise BudgetSpent(what, label="memory.C9") from None


def called(name: str) -> Planner:
    """The planner of a name. Invalid: there is none."""
    if name not in PLANNERS:
        raise Invalid(f"there is no planner {name!r}; there are {', '.join(PLANNERS)}", label="memory.C8")
    return PLANNERS[name]


def _require_complete(problem: Problem, made: Plan) -> None:
    for b in problem.buffers:
        place = made.places.get(b.name)
        if place is None:
            raise Invalid(f"the planner has not placed buffer {b.name}", label="memory.C8")
        allowed = [p.name for p in problem.candidates(b)]
        if place.pool not in allowed:
            raise Invalid(
                f"the planner has placed buffer {b.name} in pool {place.pool}; its pools are {', '.join(allowed)}",
                label="memory.C8",
            )
        if not isinstance(place.offset, Expr | int) or (isinstance(place.offset, int) and place.offset < 0):
            raise Invalid(
                f"the planner has placed buffer {b.name} at {place.offset!r}; an offset is a number of bytes",
                label="memory.C8",
            )
        if b.offset is not None and (place.pool, place.offset) != (allowed[0], b.offset):
            raise Invalid(
                f"buffer {b.name} has been placed by hand at {b.offset} in {allowed[0]}, but the planner has placed it"
                f" at {place.offset} in {place.pool}",
                label="memory.C8",
            )
    used = {place.pool for place in made.places.values()}
    if missing := sorted(used - set(made.sizes)):
        raise Invalid(f"the planner gives no size for pool {missing[0]}", label="memory.C8")
    if extra := sorted(set(made.places) - {b.name for b in problem.buffers}):
        raise Invalid(f"the planner has placed {extra[0]}, which is no buffer", label="memory.C8")

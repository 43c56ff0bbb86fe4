"""Several arrangements of the same buffers, where no one order serves all sizes (specs/lower.md, "pool").

A run takes the arrangement that is smallest at its sizes. So each need be good only where no other is: the next one is
planned at the sizes at which those before are worst. What comes of it is measured at sizes that are drawn; nothing is
said of others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from assay.lower.memory.orders import (
    MOST_ARRANGEMENTS,
    MOST_PARTS_MORE,
    MOST_PLACES,
    SPREAD,
    WANTED,
    Measure,
    Point,
    text_length,
)
from assay.semantics.deadline import Late
from assay.semantics.memory import Plan, Problem
from assay.semantics.scalar import Var, evaluate_dim

WORTH, HALF = 0.95, 0.5
"""An arrangement more has to bring the worst ratio, or what is beyond the wanted one at all points together, down to
the first share; all of them together the worst to the first, or what is beyond to the second."""
MOST_TRIED = 24
"""At so many points orders are looked for."""


def arranged(
    best: Plan,
    others: Sequence[Plan],
    problem: Problem,
    symbols: Sequence[Var],
    stacked: Callable[[Mapping[str, int]], Plan],
) -> Plan:
    """The best plan by itself where it is good enough; else with more arrangements, some of `others` among them."""
    measure = Measure.of(symbols, problem, SPREAD)
    points = [point for point, _ in measure.bounds]
    known = [(p, measure.ratios(p)) for p in (best, *others) if p is best or _fits(p, best)]
    kept = known[:1]
    most = min(MOST_ARRANGEMENTS, MOST_PLACES // max(len(problem.buffers), 1))
    planned: set[int] = set()
    unfit = 0
    while len(kept) < most and len(planned) < MOST_TRIED:
        least = _least(kept)
        open_points = [k for k, ratio in enumerate(least) if ratio > WANTED and k not in planned]
        if not open_points:
            break
        at = max(open_points, key=least.__getitem__)
        planned.add(at)
        try:
            made = stacked(_sizes(problem, points[at]))
        except Late:
            break  # those so far are a plan
        fits = _fits(made, best)
        unfit = 0 if fits else unfit + 1
        if unfit == MOST_UNFIT:
            break  # there are too many buffers, of too many sizes
        if fits:
            known.append((made, measure.ratios(made)))
        better = min(known, key=lambda k: (_excess(_least([*kept, k])), max(_least([*kept, k]))))
        after = _least([*kept, better])
        if max(after) > WORTH * max(least) and _excess(after) > WORTH * _excess(least):
            continue  # the order there is no better: the next of the worst points
        kept.append(better)
    kept = _needed(kept)
    before, after = known[0][1], _least(kept)
    if len(kept) < 2 or (max(after) > WORTH * max(before) and _excess(after) > HALF * _excess(before)):
        return best
    first, *rest = (p for p, _ in kept)
    return replace(first, planner=f"symbolic, {len(kept)} arrangements", others=tuple(rest))


MOST_UNFIT = 2
"""After so many orders in a row of which the text is too long no other is looked for."""

Rated = tuple[Plan, list[float]]


def _fits(one: Plan, first: Plan) -> bool:
    """Whether a plan can stand beside another: it is short, and has every buffer in the same pool."""
    short = text_length(one) <= MOST_PARTS_MORE
    return short and all(place.pool == first.places[n].pool for n, place in one.places.items())


def _sizes(problem: Problem, point: Point) -> dict[str, int]:
    return {b.name: max(evaluate_dim(b.nbytes, point), 0) for b in problem.buffers}


def _least(rated: Sequence[Rated]) -> list[float]:
    """At each point the ratio of the arrangement that is smallest there."""
    return [min(ratios) for ratios in zip(*(r for _, r in rated), strict=True)]


def _excess(ratios: Sequence[float]) -> float:
    return sum(max(r - WANTED, 0.0) for r in ratios)


def _needed(kept: list[Rated]) -> list[Rated]:
    """Those without which the ratio would be worse, and worse than wanted, at some point."""
    worst = max(max(_least(kept), default=1.0), WANTED)
    for one in list(kept):
        left = [k for k in kept if k is not one]
        if left and max(_least(left)) <= worst:
            kept = left
    return kept

"""Which order of buffers serves all sizes best (specs/lower.md, "pool").

A plan of symbolic sizes is stacked in the order of a plan in numbers, and so is as good as that one only near those
numbers. Here are other numbers to plan at, and the measure of what comes of them: the bytes of the pools by the most
bytes that live at once, at the sizes at which this is worst.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from assay.semantics.errors import Trap
from assay.semantics.memory import Plan, Problem, lower_bound, range_of
from assay.semantics.scalar import Expr, Var, evaluate_dim
from assay.semantics.walk import post_order

GOOD = 1.05
"""No other order is looked for where the first is no worse than this."""
LARGE = 1024
"""A symbol without a greatest value counts as at most this."""
SMALL, LEAST = 4, 2
"""What all symbols count as in one of the plans in numbers, and those beside a large one in the others."""
MOST_ORDERS = 8
DRAWN, SPREAD = 12, 60
"""So many points are drawn: to compare orders, and where several arrangements share the sizes."""
WANTED = 1.2
"""Several arrangements are looked for where the best order is worse than this at some of the points."""
MOST_ARRANGEMENTS = 16
MOST_PARTS_MORE = 3000
"""Of how many parts the text of a pool's size may be in an arrangement behind the first."""
MOST_PLACES = 4096
"""Of so many offsets may all arrangements be together: each is proved."""
MOST_PARTS = 10_000
"""Of how many numbers, symbols and operations the text of a pool's size may be."""

Point = Mapping[Var, int]


def other_points(symbols: Sequence[Var], problem: Problem) -> Iterator[Point]:
    """Values to plan at: all small, and each symbol large among small ones."""
    for large in (None, *symbols[: MOST_ORDERS - 1]):
        few = SMALL if large is None else LEAST
        yield {v: _within(problem, v, LARGE if v is large else few) for v in symbols}


def _within(problem: Problem, v: Var, wanted: int) -> int:
    low, high = range_of(problem.bounds, v)
    return max(low, wanted if high is None else min(wanted, high))


@dataclass(frozen=True, eq=False)
class Measure:
    """The most bytes that live at once at some points, each buffer rounded up to its alignment."""

    bounds: tuple[tuple[Point, int], ...]

    @staticmethod
    def of(symbols: Sequence[Var], problem: Problem, drawn: int = DRAWN) -> Measure:
        """The ends of the bounds, and so many points between them."""
        found: list[tuple[Point, int]] = []
        for point in _drawn(symbols, problem, drawn):
            try:
                if any(evaluate_dim(d, point) < 0 for d in problem.dims):
                    continue
                sizes = [max(evaluate_dim(b.nbytes, point), 0) for b in problem.buffers]
            except Trap:
                continue  # no run has these sizes
            pairs = zip(problem.buffers, sizes, strict=True)
            most = lower_bound(replace(b, nbytes=-(-n // b.alignment) * b.alignment) for b, n in pairs)
            found += [(point, most)] if most else []
        return Measure(tuple(found))

    def worst(self, plan: Plan) -> float:
        """The greatest ratio at these points; 1 where there are none."""
        return max(self.ratios(plan), default=1.0)

    def ratios(self, plan: Plan) -> list[float]:
        """The ratio at each of these points."""
        return [sum(evaluate_dim(s, point) for s in plan.sizes.values()) / most for point, most in self.bounds]


def _drawn(symbols: Sequence[Var], problem: Problem, drawn: int) -> Iterator[Point]:
    for all_of_them in (0, 1):
        yield {v: _within(problem, v, all_of_them) for v in symbols}
    for one, few in product(symbols, (0, 1)):
        yield {v: _within(problem, v, LARGE if v is one else few) for v in symbols}
        yield {v: _within(problem, v, few if v is one else LARGE) for v in symbols}
    rng = random.Random(1)
    for _ in range(DRAWN):
        yield {v: _within(problem, v, round(LARGE ** rng.random())) for v in symbols}
    for _ in range(drawn - DRAWN):
        yield {v: _between(problem, v, rng.random()) for v in symbols}


def _between(problem: Problem, v: Var, share: float) -> int:
    """A value within the bounds, at a share of their powers."""
    low, high = range_of(problem.bounds, v)
    return _within(problem, v, round((LARGE if high is None else high + 1) ** share))


def text_length(plan: Plan) -> int:
    """Of how many numbers, symbols and operations the texts of the pools' sizes are."""
    total = 0
    for size in plan.sizes.values():
        counts: dict[int, int] = {}
        for node in post_order(size) if isinstance(size, Expr) else ():
            counts[id(node)] = 1 + sum(counts[id(c)] for c in node.children)
        total += counts[id(size)] if counts else 1
    return total

"""How far the pools of a plan of unknown sizes are from the least, at sizes drawn (specs/verify.md, "pool")."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from assay.semantics.errors import Trap
from assay.semantics.instance import run_bounds, symbols_of
from assay.semantics.memory import Plan, Problem, chosen, lower_bound, range_of
from assay.semantics.module import Program
from assay.semantics.scalar import Expr, Var, evaluate_dim
from assay.verify.evidence import Did, plural

DRAWN = 40
LARGE = 4096
"""What counts as the greatest value of a symbol that has none."""


@dataclass(frozen=True)
class Ratio:
    """The bytes of the pools by the most bytes that live at once, each buffer rounded up to its alignment, where that
    is greatest of so many sizes; and the sizes there."""

    ratio: float
    at: Mapping[str, int]
    points: int

    def __str__(self) -> str:
        where = ", ".join(f"{name} = {n}" for name, n in self.at.items())
        return f"{self.ratio:.3f} times the bytes live at once at the worst of {self.points} sizes drawn, {where}"


def told_plan(plan: Plan, program: Program, problem: Problem, symbols: str) -> Did:
    """How many bytes the pools of a plan with symbols take, and how far from the least that is."""
    numbers = {name: n for name, n in plan.sizes.items() if isinstance(n, int)}
    said = [
        f"{name}, {numbers[name]} bytes" if name in numbers else f"{name}, bytes by {symbols}" for name in plan.sizes
    ]
    about = f"{plural(len(plan.places), 'buffer')} in {'; '.join(said)}"
    data: dict[str, Any] = {"buffers": len(plan.places), **numbers}
    if plan.others:
        data["arrangements"] = len(plan.others) + 1
        about = f"{about}; the smallest of {data['arrangements']} arrangements is taken"
    if (
        any(isinstance(s, Expr) for s in plan.sizes.values())
        and (ratio := drawn_ratio(program, problem, plan)) is not None
    ):
        about = f"{about}; {ratio}"
        data |= {"ratio": round(ratio.ratio, 4), "ratio_at": dict(ratio.at), "sizes_drawn": ratio.points}
    return about, data


def drawn_ratio(program: Program, problem: Problem, plan: Plan) -> Ratio | None:
    """The worst of the ratios at the ends of the bounds and at sizes between, in the arrangement that is taken there.
    None: nothing lives at any of them. Of other sizes this says nothing."""
    found: list[Ratio] = []
    for point in _points(program):
        try:
            if any(evaluate_dim(d, point) < 0 for d in problem.dims):
                continue
            sizes = [max(evaluate_dim(b.nbytes, point), 0) for b in problem.buffers]
            taken = chosen(plan, lambda dim, at=point: evaluate_dim(dim, at))  # type: ignore[misc]
            nbytes = sum(evaluate_dim(s, point) for s in taken.sizes.values())
        except Trap:
            continue  # no run has these sizes
        pairs = zip(problem.buffers, sizes, strict=True)
        least = lower_bound(replace(b, nbytes=-(-n // b.alignment) * b.alignment) for b, n in pairs)
        if least:
            found.append(Ratio(nbytes / least, {v.name: n for v, n in point.items()}, 0))
    worst = max(found, key=lambda r: r.ratio, default=None)
    return None if worst is None else replace(worst, points=len(found))


def _points(program: Program) -> Iterator[dict[Var, int]]:
    symbols, bounds = symbols_of(program), run_bounds(program)
    ends = {v: (low, max(low, LARGE) if high is None else high) for v in symbols for low, high in [range_of(bounds, v)]}
    yield {v: low for v, (low, _) in ends.items()}
    yield {v: high for v, (_, high) in ends.items()}
    for one in symbols:
        yield {v: ends[v][v is one] for v in symbols}
        yield {v: ends[v][v is not one] for v in symbols}
    rng = random.Random(7)
    for _ in range(DRAWN):
        yield {v: min(high, max(low, round((high + 1) ** rng.random()))) for v, (low, high) in ends.items()}

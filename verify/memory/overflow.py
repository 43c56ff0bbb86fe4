"""Whether sizes and offsets stay in int64, in which a run computes them (specs/verify.md, "Memory plans").

Every step of every expression, and where each buffer ends. Ranges of its parts show it for most; where a symbol has no
greatest value, the greatest is found up to which they do, and stated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from assay.semantics.deadline import NEVER, Deadline
from assay.semantics.dtypes import INT64, DType
from assay.semantics.errors import Trap
from assay.semantics.integers.polynomials import Polynomial, number, polynomial_range, value
from assay.semantics.integers.ranges import Range, fits_dtype
from assay.semantics.memory import Plan, Problem, range_of
from assay.semantics.scalar import Var
from assay.verify.evidence import Evidence, refuted, unknown
from assay.verify.memory.derive import within
from assay.verify.memory.forms import Forms
from assay.verify.memory.goals import PlanGoal, Way, local_text
from assay.verify.memory.solve import solve

Held = tuple[str, Polynomial, DType]
"""What must stay in its dtype, in words, and its form."""


def overflow_fault(
    problem: Problem, plan: Plan, forms: Forms, queries: dict[str, str], deadline: Deadline = NEVER
) -> tuple[Evidence | None, str]:
    """A refutation, or None and up to where no step leaves its dtype. The text about the ends of buffers is kept.
    Late: the time is up."""
    ends = [(f"the size of pool {n}", forms.of(s), INT64) for n, s in plan.sizes.items()]
    for b in problem.buffers:
        end = forms.of(plan.places[b.name].offset) + forms.of(b.nbytes)
        ends.append((f"where buffer {b.name} ends", end, INT64))
    steps = [("a step of a size or an offset", f, node.dtype) for node, f in forms.nodes()]
    held = list({(h[1], h[2]): h for h in (*steps, *ends)}.values())
    left = [h for h in held if not stays_in_dtype(h, forms.ranges)]
    bounds = forms.bounds
    stays = "int64 suffices"
    if left:
        free = [v for v in forms.symbols() if range_of(bounds, v)[1] is None]
        if not free:
            return _broken(left, forms), ""
        most = greatest(left, forms, free)
        if most is None:
            return _broken(left, forms), ""
        bounds = {**bounds, **{v: (range_of(bounds, v)[0], most) for v in free}}
        stays = (
            f"int64 suffices while {' and '.join(v.name for v in free)} {'is' if len(free) == 1 else 'are'} at most"
            f" {most}"
        )
    ranges = forms.ranges_within(bounds)
    goals = [PlanGoal("overflow", f"{about} is in int64", "", (), (_at_most(f),)) for about, f, _ in ends]
    text = local_text([(g, tuple(within(g.ways[0].form, ranges))) for g in goals], forms, stays, ranges)
    solved = solve(text, deadline=deadline)
    if solved.answer != "unsat":
        what = f"z3 does not know whether offsets stay in int64: {solved.answer} {solved.reason}"
        return unknown("proved", what, claim="unknown"), ""
    queries["overflow"] = text
    return None, stays


def stays_in_dtype(held: Held, ranges: list[Range]) -> bool:
    """Whether the ranges of atoms keep a form in its dtype."""
    _, f, of = held
    return fits_dtype(polynomial_range(f, ranges), of)


def greatest(held: Sequence[Held], forms: Forms, free: Sequence[Var]) -> int | None:
    """The greatest number up to which symbols may grow, all at once; None: not even to their least values."""
    order = list(held)

    def fits(most: int) -> bool:
        bounds = {v: (range_of(forms.bounds, v)[0], most) for v in free}
        ranges = forms.ranges_within({**forms.bounds, **bounds})
        for i, h in enumerate(order):
            if not stays_in_dtype(h, ranges):
                order.insert(0, order.pop(i))  # what is large now is large again
                return False
        return True

    low = max(range_of(forms.bounds, v)[0] for v in free)
    return last(fits, low, int(INT64.max))


def last(fits: Callable[[int], bool], low: int, high: int) -> int | None:
    """The last number that fits, of numbers of which the first do; None: the first does not."""
    if not fits(low):
        return None
    while low < high:
        middle = low + (high - low + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _broken(left: Sequence[Held], forms: Forms) -> Evidence:
    """Values at which something leaves its dtype, at corners of the bounds; or that it is not known."""
    ends = {v: range_of(forms.bounds, v) for v in forms.symbols()}
    for corner in (
        {v: low if high is None else high for v, (low, high) in ends.items()},
        {v: low for v, (low, _) in ends.items()},
    ):
        try:
            values = forms.values(corner)
        except Trap:
            continue
        for about, f, of in left if forms.allowed(values) else ():
            found = value(f, values)
            if not fits_dtype((found, found), of):
                where = ", ".join(f"{v.name} = {k}" for v, k in corner.items())
                dims = {v.name: k for v, k in corner.items()}
                return refuted("proved", f"for {where}: {about} is {found}, not in {of}", claim="overflow", dims=dims)
    about, _, of = left[0]
    return unknown("proved", f"not decided: whether {about} stays in {of}", claim="overflow")


def _at_most(f: Polynomial) -> Way:
    return Way(number(int(INT64.max)) - f, (), ())

"""A plan of several arrangements as one, whose places are choices (specs/semantics.md, "Memory planning").

    in_one(plan)    # offsets such as T.Select(taken == 1, 64 * n, 128)

Who proves a plan, or runs it at given sizes, looks at one arrangement at a time. Who writes it down for a program that
is told the sizes at entry, such as C, needs what is the same at all sizes: expressions that choose.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from assay.semantics.memory import Place, Plan, arrangements
from assay.semantics.scalar import Dim, Interner, apply, as_expr, const, select


def in_one(plan: Plan) -> Plan:
    """The plan with one arrangement: at all sizes it has the sizes and offsets of the one that a run takes there."""
    found = arrangements(plan)
    if len(found) == 1:
        return plan
    totals = [as_expr(total(p.sizes.values())) for p in found]
    least, taken = totals[0], as_expr(0)
    for k, own in enumerate(totals[1:], 1):
        taken = select(own < least, const(k), taken)
        least = apply("min", least, own)
    number = Interner()

    def choice(dims: Sequence[Dim]) -> Dim:
        """Of one dim for each arrangement that of the one that is taken."""
        *others, last = dims
        for k, dim in reversed([*enumerate(others)]):
            if number(dim) != number(last):
                last = select(apply("eq", taken, const(k)), as_expr(dim), as_expr(last))
        return last

    places = {n: Place(p.pool, choice([q.places[n].offset for q in found])) for n, p in plan.places.items()}
    sizes = {n: choice([q.sizes[n] for q in found]) for n in plan.sizes}
    if len(sizes) == 1:
        sizes = dict.fromkeys(sizes, least)  # which says the same, and bounds are known of it
    return Plan(places, sizes, plan.planner)


def total(dims: Iterable[Dim]) -> Dim:
    """The sum of some dims."""
    found: Dim = 0
    for dim in dims:
        found = dim if isinstance(found, int) and not found else found + dim
    return found

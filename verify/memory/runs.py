"""The sizes that a plan is for: those of runs, at which no dim is below 0 (specs/verify.md, "Memory plans").

The machine and the C refuse sizes at which any tensor of the program has a dim below 0. So a proof may assume that
there is none. What follows for the bounds of single symbols is shown in a text of its own, and the bounds stand for it;
dims of which that does not say enough are assumed by the other texts.
"""

from __future__ import annotations

from assay.semantics.integers.narrowing import narrowed
from assay.semantics.integers.polynomials import Polynomial, number
from assay.semantics.integers.ranges import at_least
from assay.semantics.memory import Problem, range_of
from assay.verify.memory.derive import derive
from assay.verify.memory.forms import Forms
from assay.verify.memory.grounds import Grounds, products, text, total


def forms_of_runs(problem: Problem) -> tuple[Forms, str]:
    """The forms of a problem within the bounds that hold in every run, given the dims of which these do not say that
    they are 0 or more; and the text that asks whether the bounds follow, "" where they are those of the problem."""
    declared = Forms(problem.bounds)
    seldom = [d for d in problem.dims if not at_least(declared.range(declared.of(d)), 0)]
    bounds = narrowed(problem.bounds, seldom)
    within, forms = Forms(bounds), Forms(bounds)
    forms.give(d for d in seldom if derive(within.of(d), within, within.ranges) is None)
    declared.give(seldom)
    claims: list[Polynomial] = []
    for v in bounds:
        (low, high), (least, most) = range_of(problem.bounds, v), range_of(bounds, v)
        claims += [declared.of(v) - number(least)] if least > low else []
        claims += [number(most) - declared.of(v)] if most is not None and most != high else []
    if not claims:
        return forms, ""
    grounds = Grounds(declared, declared.ranges)
    asked = [*grounds.declared(products(claims)), "(assert (or", *(f"  (< {total(f)} 0)" for f in claims), "))"]
    about = "the sizes of runs", f"{len(claims)} goals", f"{len(declared.given)} dims"
    return forms, text(*about, grounds.head(), ["\n".join(asked)])

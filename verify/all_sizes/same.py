"""Whether two tensor functions give the same for all sizes (specs/verify.md, "fuse")."""

from __future__ import annotations

from assay.semantics.errors import Invalid
from assay.semantics.scalar import as_expr, substitute
from assay.semantics.tensor import PrimFunc
from assay.verify.all_sizes import OF_DATA, AllSizesProof, base_facts, own_traps
from assay.verify.all_sizes.compare import TermComparison
from assay.verify.all_sizes.pieces import NotFollowed
from assay.verify.all_sizes.plain_traps import can_fail
from assay.verify.all_sizes.reader import FunctionReader
from assay.verify.all_sizes.space import Space, in_box


def same_for_all_sizes(one: PrimFunc, two: PrimFunc) -> AllSizesProof:
    """Whether two functions over the very same buffers give the same, bit for bit, for every value of their sizes and
    inputs; the first one cannot trap, and the second is shown to evaluate what may in the same places, on the same
    operands."""
    try:
        why = _difference(one, two)
    except (NotFollowed, Invalid) as unknown:
        why = str(unknown)
    return AllSizesProof(not why, why)


def _difference(one: PrimFunc, two: PrimFunc) -> str:
    if one.params != two.params or one.scalars != two.scalars:
        return "they take other buffers"
    space, facts = Space(), base_facts(one)
    first, second = (FunctionReader(f, space, facts).run() for f in (one, two))
    for read in (first, second):
        if read.checks or not all(space.implies(facts, a) for a in read.asked):
            return "one of them asserts something"
    fails = False
    for b, place, value, other_place, other in zip(
        one.outputs, first.places, first.values, second.places, second.values, strict=True
    ):
        fails |= can_fail(value) or can_fail(other)
        inside = in_box([as_expr(d) for d in b.shape], place)
        there = substitute(other, dict(zip(other_place, place, strict=True)))
        comparison = TermComparison(space, strict=can_fail(value) or can_fail(other))
        if why := comparison.difference(there, value, (*facts, *inside)):
            return why
    besides = OF_DATA if fails else ()
    return own_traps(one, besides) or own_traps(two, besides)

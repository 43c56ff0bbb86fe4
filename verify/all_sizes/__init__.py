"""Whether a kernel is its operator for all sizes (specs/verify.md, "For all sizes").

The operator stands in index notation (`assay.semantics.indexed`), a term for each element. The kernel, its sizes
symbols, is read backwards into terms over the same language (`reader`), and both are compared (`compare`). That it
traps nowhere, writes nothing out of bounds, and that no index wraps is shown by the goals of `assay.verify.symbolic`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assay.semantics.errors import Crash, Invalid
from assay.semantics.indexed import meaning_of
from assay.semantics.indexed.meaning import Meaning, Use
from assay.semantics.operator import Attrs, Operator
from assay.semantics.scalar import Expr, as_expr, const
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import TensorType, flatten
from assay.verify.all_sizes.compare import TermComparison
from assay.verify.all_sizes.pieces import NotFollowed
from assay.verify.all_sizes.plain_traps import can_fail
from assay.verify.all_sizes.reader import FunctionReader, ReadFunction
from assay.verify.all_sizes.space import Facts, Space, conjunction, in_box
from assay.verify.symbolic import prove_accesses
from assay.verify.symbolic.function import MOST_BYTES, size_symbols

OF_DATA = ("no division by zero", "shift", "cast")
"""Goals about steps that trap by their data, where a value has such steps: the operator's has the same ones."""


@dataclass(frozen=True)
class AllSizesProof:
    """Whether a kernel was shown to be its operator's index notation for all sizes, or why not."""

    holds: bool
    reason: str = ""


def prove_for_all_sizes(kernel: PrimFunc, op: Operator, attrs: Attrs) -> AllSizesProof:
    """Whether a kernel gives, at every index, for every value of its sizes and inputs, what the operator's index
    notation says, bit for bit."""
    meaning = meaning_of(op.name)
    if meaning is None:
        return AllSizesProof(False, f"{op.name} is not stated in index notation")
    try:
        space = Space()
        use = Use(op.check_attrs(attrs), kernel.inputs, kernel.outputs)
        wrong = _wrong(kernel, op, meaning, use, space)
    except (NotFollowed, Invalid) as unknown:
        wrong = str(unknown)
    return AllSizesProof(not wrong, wrong or "")


def base_facts(kernel: PrimFunc) -> Facts:
    """What holds of sizes whenever a kernel runs."""
    dims = [as_expr(d) for b in kernel.params for d in b.shape if isinstance(d, Expr)]
    facts = [f for d in dims for f in (d >= 0, d <= const(MOST_BYTES))]
    scalars = [v for v in size_symbols(kernel) if v.dtype.is_integer]
    return (*facts, *(f for v in scalars for f in (v >= const(v.dtype.min, v.dtype), v <= const(v.dtype.max, v.dtype))))


def _wrong(kernel: PrimFunc, op: Operator, meaning: Meaning, use: Use, space: Space) -> str:
    if why := _other_type(kernel, use, op, space):
        return why
    read = FunctionReader(kernel, space, base_facts(kernel)).run()
    needs = list(meaning.needs(use))
    for facts, claim in ((needs, read.asked), (read.asked, needs)):
        if not space.implies((*base_facts(kernel), *facts), conjunction(claim)):
            return f"it asks {list(read.asked)} of sizes, not {needs}"
    if why := _other_checks(read, meaning, use, space):
        return why
    for number, (place, value) in enumerate(zip(read.places, read.values, strict=True)):
        own = Use(use.attrs, use.operands, use.results, number)
        wanted = meaning.element(own, *place)
        if wanted.dtype is not own.out.dtype:
            raise Crash(f"the index notation gives {wanted.dtype}, the result is {own.out.dtype}")
        inside = in_box([as_expr(d) for d in own.out.shape], place)
        comparison = TermComparison(space, strict=can_fail(wanted) or can_fail(value))
        if why := comparison.difference(value, wanted, (*read.facts, *inside)):
            return why
    fails = any(can_fail(v) for v in read.values)
    return own_traps(kernel, OF_DATA if fails else ())


def _other_type(kernel: PrimFunc, use: Use, op: Operator, space: Space) -> str:
    """Why the kernel gives tensors of other types than the operator does; "" where it gives those."""
    wanted = flatten(op.type_rule(use.attrs, tuple(TensorType(b.shape, b.dtype) for b in kernel.inputs)))
    given = [TensorType(b.shape, b.dtype) for b in kernel.outputs]
    if len(wanted) != len(given):
        return f"it gives {len(given)} tensors, not {len(wanted)}"
    for t, b in zip(wanted, given, strict=True):
        if t.dtype is not b.dtype or len(t.shape) != len(b.shape):
            return f"it gives {b}, not {t}"
        if not all(space.equal((), as_expr(n), as_expr(m)) for n, m in zip(t.shape, b.shape, strict=True)):
            return f"it gives {b}, not {t}"
    return ""


def _other_checks(read: ReadFunction, meaning: Meaning, use: Use, space: Space) -> str:
    """Why what the kernel asks of data is not what the operator does; "" where it is."""
    asks = list(meaning.asks(use))
    if len(asks) != len(read.checks):
        return f"it asserts {len(read.checks)} things of data, not {len(asks)}"
    for own, check in zip(asks, read.checks, strict=True):
        if len(own.extents) != len(check.vars):
            return "it asserts something in another box"
        for mine, other in zip(own.extents, check.extents, strict=True):
            if not space.equal(read.facts, as_expr(mine), other):
                return "it asserts something in another box"
        facts = (*read.facts, *in_box(check.extents, check.vars))
        comparison = TermComparison(space, strict=True)
        if not space.implies(facts, check.guard):
            return "it asserts something in some cases alone"
        if why := comparison.difference(check.condition, own.condition(*check.vars), facts):
            return f"it asserts {why}"
    return ""


def own_traps(kernel: PrimFunc, besides: Sequence[str] = ()) -> str:
    """Why the kernel may trap, or wrap an index, by itself; "" where it is shown not to. Goals of the kinds `besides`
    are left out."""
    # what nothing has written is equal to nothing here
    for goal in prove_accesses(kernel, initialised=False, brief=True).goals:
        if goal.verdict != "proved" and goal.kind not in besides:
            return f"{goal.kind}: {goal.claim} is {goal.verdict}"
    return ""

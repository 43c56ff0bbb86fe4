"""Whether what a program keeps for sizes that a run measures is enough (specs/verify.md, "liveness").

That a symbol has a greatest value is shown of what it is set to, or of an assertion that comes next on every way,
before anything else can fail; where neither says it, it is a limit of the program, and told. That a slot has room is
shown for all values up to the greatest. Both are questions of whether so many bytes end within so many, which is what
is asked of a plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from assay.semantics.graph.effects import kernel_can_trap
from assay.semantics.instance import measured_of, run_dims
from assay.semantics.integers.polynomials import Polynomials
from assay.semantics.integers.ranges import at_least
from assay.semantics.memory import BufferInfo, Place, Plan, Pool, Problem
from assay.semantics.module import Assertion, Measure, Program, Step
from assay.semantics.scalar import Dim, Expr, Var, show, variables
from assay.semantics.tensor import PrimFunc
from assay.semantics.tensor.calls import size_of
from assay.verify.evidence import Evidence, plural, proved, refuted
from assay.verify.memory.symbolic import prove_symbolic


def check_measured(program: Program, kernels: Mapping[str, PrimFunc]) -> Evidence:
    """Whether each measured size has the greatest value that its measure names, and each slot room for it."""
    measured = measured_of(program)
    wrong = next(_odd(program, measured), None)
    if wrong is not None:
        return refuted("proved", wrong)
    if not measured:
        return proved("no size is measured")
    given = [*run_dims(program)]
    limits = program.bounds
    for i, item in enumerate(program.steps):
        if not isinstance(item, Measure):
            continue
        others = [most - v for v, most in measured.items() if v not in item.symbols]  # a run ends where they are more
        told = [*given, *(d for d in others if isinstance(d, Expr)), *_told(program, kernels, i, measured)]
        open_ = [(f"{k}: {show(d)}", 0, d) for k, d in enumerate(item.values) if not _is_natural(d)]
        found = _is_within(program, open_, told)
        if not found.holds:
            return replace(found, detail=f"that a size is no less than 0 is not shown: {found.detail}")
        for k, (v, most) in enumerate(zip(item.symbols, item.most, strict=True)):
            if v in limits or (item.values and _is_natural(most - item.values[k])):
                continue
            found = _is_within(program, [(v.name, v, most)], told)
            if not found.holds:
                what = f"that {v.name} is at most {show(most)} does not follow from what is asserted next of it"
                return replace(found, detail=f"{what}: {found.detail}")
    inside = [d for v, most in measured.items() for d in (v, most - v) if isinstance(d, Expr)]
    rooms = [
        (s.name, size_of(s.type.shape) * s.type.dtype.itemsize, s.room)
        for s in program.slots.values()
        if s.room is not None
    ]
    found = _is_within(program, rooms, [*given, *inside])
    if not found.holds:
        return replace(found, detail=f"the room of slots for measured sizes: {found.detail}")
    return proved(f"{plural(len(measured), 'measured size')}, {plural(len(rooms), 'slot')} with room for the most")


def _is_natural(dim: Dim) -> bool:
    """Whether a dim is never below 0, as no symbol is: seen without a solver."""
    sizes = Polynomials({})
    return at_least(sizes.range(sizes.of(dim)), 0)


def _odd(program: Program, measured: Mapping[Var, Dim]) -> Iterator[str]:
    """What is wrong in the text alone."""
    known = {v for n in program.inputs for d in program.slots[n].type.shape for v in variables(d)}
    known |= {v for v, _, _ in program.limits if v not in measured}
    for v in measured:
        if v in known:
            yield f"{v.name} is measured, and is known when a run begins"
    for v, low, high in program.limits:
        if v in measured and (low, high) != (0, most if isinstance(most := measured[v], int) else None):
            yield f"{v.name} is at most {show(measured[v])} where it is measured, and its limits are others"
    for v, most in measured.items():
        if any(s in measured for s in variables(most)):
            yield f"the greatest {v.name}, {show(most)}, is not known when a run begins"
    for s in program.slots.values():
        over = any(v in measured for d in s.type.shape for v in variables(d))
        if over != (s.room is not None):
            yield f"slot {s.name} is {s.type}, and has {'a' if s.room is not None else 'no'} room for measured sizes"
        if s.room is not None and any(v in measured for v in variables(s.room)):
            yield f"the room of slot {s.name} is not known when a run begins"
        if over and s.place in ("input", "constant"):
            yield f"slot {s.name} is the program's {s.place}, whose sizes are known when a run begins"


def _told(program: Program, kernels: Mapping[str, PrimFunc], at: int, measured: Mapping[Var, Dim]) -> Iterator[Expr]:
    """What is 0 or more if the run goes on behind a measure: every measured size, and both ways what is asserted to be
    equal before anything else can fail."""
    yield from measured
    here = program.steps[at]
    assert isinstance(here, Measure)
    for v, d in zip(here.symbols, here.values, strict=False):
        if not any(o in here.symbols for o in variables(d)):
            yield from (v - d, d - v)
    for item in program.steps[at + 1 :]:
        match item:
            case Assertion():
                for a, b in item.sizes:
                    yield from (d for d in (a - b, b - a) if isinstance(d, Expr))
            case Step() if not kernel_can_trap(kernels[item.kernel]):
                pass
            case Measure():
                pass
            case _:
                return


def _is_within(program: Program, some: Sequence[tuple[str, Dim, Dim]], told: Sequence[Expr]) -> Evidence:
    """Whether of each of some names a number is at most another, wherever what is told is 0 or more."""
    if not some:
        return proved("nothing is asked")
    buffers = tuple(BufferInfo(name, number, ((0, 1),), pools=(name,)) for name, number, _ in some)
    problem = Problem(buffers, tuple(Pool(name, alignment=1) for name, _, _ in some), program.bounds, tuple(told))
    plan = Plan({name: Place(name, 0) for name, _, _ in some}, {name: most for name, _, most in some})
    return prove_symbolic(problem, plan)[0]

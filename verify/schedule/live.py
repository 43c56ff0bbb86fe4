"""The bytes of workspace that are live in each call of `main`, from first and last uses (specs/verify.md, "schedule").

Sizes may be symbols: the most live bytes are a number at numbers for these, and two orders are compared for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod

from assay.semantics.alias import Origin, bindings, origins, result
from assay.semantics.errors import Invalid
from assay.semantics.graph import CallTIR
from assay.semantics.instance import replaced, sizes_of_call
from assay.semantics.integers.polynomials import ZERO, Polynomial, Polynomials
from assay.semantics.integers.ranges import at_least
from assay.semantics.module import Module
from assay.semantics.scalar import Dim, Var as Symbol, evaluate_dim
from assay.semantics.types import TensorType, symbols
from assay.verify.trials.sizes import Sizes, declared_bounds

COMPARED = 64
"""What is live in a step is compared with what is live in so many of the other order."""


@dataclass
class LiveCall:
    """The tensors that begin with a call, that it allocates inside, that it reads, and that end after it: in the
    workspace, and in the symbols of `main`."""

    begins: list[TensorType] = field(default_factory=list)
    inside: list[TensorType] = field(default_factory=list)
    reads: list[TensorType] = field(default_factory=list)
    ends: list[TensorType] = field(default_factory=list)


def live_calls(module: Module) -> list[LiveCall]:
    """What begins and ends with each call of `main`, in order."""
    main = module.main
    look = origins(main)
    given = set(look(result(main)))
    last: dict[Origin, int] = {}
    calls: list[LiveCall] = []
    for var, value in bindings(main):
        if isinstance(value, CallTIR):
            made = [o for o in look(var) if o not in given]
            read = dict.fromkeys(o for a in value.args for o in look(a) if o in last)
            last |= dict.fromkeys([*made, *read], len(calls))
            kernel = module.kernel(value.func)
            own: Mapping[Symbol, Dim] = sizes_of_call(value, kernel)
            inside = [TensorType(tuple(replaced(d, own) for d in b.shape), b.dtype) for b in kernel.allocations]
            calls.append(LiveCall([o.type for o in made], inside, [o.type for o in read]))
    for origin, i in last.items():
        calls[i].ends.append(origin.type)
    return calls


def peak(module: Module, at: Sizes | None = None) -> int:
    """The most bytes of workspace live at once, with numbers for symbols."""
    live = most = 0
    for call in live_calls(module):
        live += _bytes(call.begins, at)
        most = max(most, live + _bytes(call.inside, at))
        live -= _bytes(call.ends, at)
    return most


def least_peak(module: Module, at: Sizes | None = None) -> int:
    """The most bytes that one call needs by itself: what it reads, makes and allocates. No order needs fewer."""
    return max((_bytes([*c.begins, *c.inside, *c.reads], at) for c in live_calls(module)), default=0)


def _bytes(types: list[TensorType], at: Sizes | None) -> int:
    return sum(prod(max(evaluate_dim(d, at or {}), 0) for d in t.shape) * t.dtype.itemsize for t in types)


def never_more(source: Module, target: Module) -> bool:
    """Whether `target` needs at no sizes that are declared more bytes at once than `source`, as far as algebra shows:
    what is live in one of its calls is never more than what is live in some call of the source."""
    sums = Polynomials(declared_bounds(source.main))
    before, after = (dict.fromkeys(_profile(m, sums)) for m in (source, target))
    large = sorted(before, key=lambda p: (-len(p.terms), -sum(p.terms.values()), -p.constant))[:COMPARED]
    return all(new in before or any(at_least(sums.range(old - new), 0) for old in large) for new in after)


def _profile(module: Module, sums: Polynomials) -> Iterator[Polynomial]:
    """The bytes live in each call."""

    def total(types: list[TensorType]) -> Polynomial:
        found = ZERO
        for t in types:
            size: Dim = t.dtype.itemsize
            for d in t.shape:
                size = d * size
            found = found + sums.of(size)
        return found

    live = ZERO
    for call in live_calls(module):
        live = live + total(call.begins)
        yield live + total(call.inside)
        live = live - total(call.ends)


def sizes_by_name(module: Module, sizes: Mapping[str, int]) -> Sizes:
    """The symbols in the types of `main` with the numbers that are given by name. Invalid (schedule.C2): one has
    none."""
    types = [*(p.type for p in module.main.params), *(v.type for v, _ in bindings(module.main))]
    found = dict.fromkeys(s for t in types for s in symbols(t))
    lost = next((s.name for s in found if s.name not in sizes), None)
    if lost is not None:
        raise Invalid(f"the attribute schedule says nothing of the size {lost}", label="schedule.C2")
    return {s: sizes[s.name] for s in found}

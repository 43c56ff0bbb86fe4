"""What a good memory plan is, checked pair by pair (specs/verify.md, "Memory plans").

This is the definition: quadratic and obvious. `assay.verify.memory.proof` proves the same claims, and is compared with
it. A plan is checked in numbers; sizes with symbols are checked at given values of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal, TypeAlias

from assay.semantics.dtypes import INT64
from assay.semantics.memory import BufferInfo, Interval, Place, Plan, Pool, Problem, chosen
from assay.semantics.scalar import Dim, Expr, Var, evaluate_dim
from assay.verify.evidence import Evidence, How, checked, plural, refuted

Claim: TypeAlias = Literal[
    "names",
    "placed",
    "pool",
    "read only",
    "alignment",
    "life",
    "size",
    "by hand",
    "inside",
    "limit",
    "aligned",
    "apart",
    "overflow",
]
"""What a plan is held to; see `CLAIMS`."""

CLAIMS: dict[Claim, str] = {
    "names": "buffers have names of their own, and so have pools",
    "placed": "every buffer has a place, every pool that is used a size, and nothing else has",
    "pool": "a buffer lies in one of its candidate pools, which is of its kind",
    "read only": "a read-only pool holds constants only",
    "alignment": "alignments are positive, and a buffer's divides its pool's",
    "life": "every interval of a life is of whole positions, and ends after it begins",
    "size": "sizes and offsets are whole numbers, and no buffer and no pool has less than 0 bytes",
    "by hand": "a buffer that was placed by hand lies there, in the first of its pools",
    "inside": "a buffer begins at 0 or later and ends within its pool",
    "limit": "no pool is larger than its limit",
    "aligned": "an offset is a multiple of the buffer's alignment",
    "apart": "two buffers that are live at one position share no byte",
    "overflow": "no size, no offset, no end of a buffer, and no step of them, leaves int64",
}


MOST = int(INT64.max)
"""The greatest size and the greatest end of a buffer: a run counts bytes in int64."""


@dataclass(frozen=True)
class Fault:
    """One claim that a plan breaks, in words, and where: a picture can be drawn of it."""

    claim: Claim
    detail: str
    pool: str = ""
    buffers: tuple[str, ...] = ()
    bytes: Interval | None = None
    positions: Interval | None = None

    def evidence(self, how: How, **data: object) -> Evidence:
        """The fault as evidence, with the place as data."""
        where = {"pool": self.pool, "buffers": self.buffers, "bytes": self.bytes, "positions": self.positions}
        return refuted(how, self.detail, claim=self.claim, **where, **data)


def check_plan(problem: Problem, plan: Plan, at: Mapping[Var, int] | None = None) -> Evidence:
    """Whether a plan is good, by definition; the first claim that it breaks. `at`: the values of symbols in sizes.

    Invalid (scalar.C7): a size has a symbol that `at` does not give.
    """
    for fault in faults(problem, plan, at):
        return fault.evidence("checked")
    return checked(
        f"{plural(len(problem.buffers), 'buffer')}: every one is in place, and no two live ones share a byte"
    )


def faults(problem: Problem, plan: Plan, at: Mapping[Var, int] | None = None) -> Iterator[Fault]:
    """Every claim that a plan breaks; where buffers cannot be placed at all, only that. None at sizes that no run
    has."""
    lost = list(unplaced(problem, plan))
    yield from lost
    if not lost and all(evaluate_dim(dim, at or {}) >= 0 for dim in problem.dims):
        problem, plan = in_numbers(problem, plan, lambda dim: evaluate_dim(dim, at or {}))
        yield from misplaced_buffers(problem, plan)
        yield from overlapping(problem, plan)


def in_numbers(problem: Problem, plan: Plan, of: Callable[[Dim], int]) -> tuple[Problem, Plan]:
    """A problem and its plan with every size and offset the number that `of` gives, in the arrangement that is taken
    there."""
    plan = chosen(plan, of)
    buffers = tuple(replace(b, nbytes=of(b.nbytes)) for b in problem.buffers)
    places = {n: Place(p.pool, of(p.offset)) for n, p in plan.places.items()}
    sizes = {n: of(s) for n, s in plan.sizes.items()}
    return replace(problem, buffers=buffers, dims=()), replace(plan, places=places, sizes=sizes)


def unplaced(problem: Problem, plan: Plan) -> Iterator[Fault]:
    """What is wrong with a plan before any size or offset is looked at."""
    names = [b.name for b in problem.buffers]
    pools = {p.name: p for p in problem.pools}
    for name in sorted(n for n, count in Counter(names).items() if count > 1):
        yield Fault("names", f"two buffers are called {name}", buffers=(name,))
    if len(pools) < len(problem.pools):
        yield Fault("names", "two pools have one name")
    for name in sorted(plan.places.keys() - set(names)):
        yield Fault("placed", f"the plan places {name}, which is no buffer of the problem", buffers=(name,))
    for name in sorted(plan.sizes.keys() - pools.keys()):
        yield Fault("placed", f"the plan gives a size to {name}, which is no pool of the problem", pool=name)
    for p in problem.pools:
        if p.alignment <= 0:
            yield Fault("alignment", f"pool {p.name} has the alignment {p.alignment}", pool=p.name)
    for name, size in plan.sizes.items():
        if not is_integral(size):
            yield Fault("size", f"pool {name} has {size!r} bytes, which is no whole number", name)
    for p in problem.pools:
        if p.limit is not None and not is_number(p.limit):
            yield Fault("limit", f"pool {p.name} has the limit {p.limit!r}, which is no whole number", p.name)
    for b in problem.buffers:
        yield from _odd(b)
        yield from _unplaced(problem, plan, b, pools)


def is_number(value: object) -> bool:
    """Whether something is a number without a fraction: 99.5 is not, 99.0 is not written as one, and True is none."""
    return type(value) is int


def is_integral(dim: object) -> bool:
    """Whether something can be a size or an offset: a whole number, or an expression of integers."""
    return dim.dtype.is_integer if isinstance(dim, Expr) else is_number(dim)


def _odd(b: BufferInfo) -> Iterator[Fault]:
    """What is no number, or no life, in a buffer by itself."""

    def odd(claim: Claim, what: str, why: str = "no whole number") -> Fault:
        return Fault(claim, f"buffer {titled(b)} {what}, which is {why}", buffers=(b.name,))

    if not is_integral(b.nbytes):
        yield odd("size", f"has {b.nbytes!r} bytes")
    if not is_number(b.alignment):
        yield odd("alignment", f"has the alignment {b.alignment!r}")
    if b.offset is not None and not is_number(b.offset):
        yield odd("by hand", f"was placed at {b.offset!r} by hand")
    for start, stop in b.live:
        if not is_number(start) or not is_number(stop) or start >= stop:
            yield odd("life", f"is live in [{start!r}, {stop!r})", "no interval")


def _unplaced(problem: Problem, plan: Plan, b: BufferInfo, pools: Mapping[str, Pool]) -> Iterator[Fault]:
    place = plan.places.get(b.name)
    if place is None:
        yield Fault("placed", f"buffer {titled(b)} has no place", buffers=(b.name,))
        return
    pool = pools.get(place.pool)
    where = f"buffer {titled(b)} lies in pool {place.pool}"
    if not is_integral(place.offset):
        yield Fault("size", f"{where} at {place.offset!r}, which is no whole number", place.pool, (b.name,))
    if pool is None or place.pool not in plan.sizes:
        what = "is no pool of the problem" if pool is None else "has no size"
        yield Fault("placed", f"{where}, which {what}", place.pool, (b.name,))
        return
    if unknown := [n for n in b.pools if n not in pools]:
        yield Fault("pool", f"buffer {titled(b)} wants pool {unknown[0]}, which is not there", "", (b.name,))
    elif pool not in problem.candidates(b):
        yield Fault("pool", f"{where}, which is none of its candidates", pool.name, (b.name,))
    if pool.read_only and b.kind != "constant":
        yield Fault("read only", f"{where}, which is read-only, and is no constant", pool.name, (b.name,))
    if b.kind != pool.kind:
        yield Fault("pool", f"{where}, of the kind {pool.kind}, and is of the kind {b.kind}", pool.name, (b.name,))
    if b.offset is not None and (not b.pools or b.pools[0] != pool.name):
        yield Fault("by hand", f"{where}, which is not where it was placed by hand", pool.name, (b.name,))
    if b.alignment <= 0 or pool.alignment <= 0 or pool.alignment % b.alignment:
        what = (
            f"buffer {titled(b)} has the alignment {b.alignment}, and pool {pool.name} is aligned to {pool.alignment}"
        )
        yield Fault("alignment", what, pool.name, (b.name,))


def misplaced_buffers(problem: Problem, plan: Plan) -> Iterator[Fault]:
    """Each buffer and each pool by itself, in numbers."""
    for p in problem.pools:
        size = number(plan.sizes.get(p.name, 0))
        if size > MOST:
            yield Fault("overflow", f"pool {p.name} has {size} bytes, more than int64 can count", p.name)
        if size < 0:
            yield Fault("size", f"pool {p.name} has {size} bytes", p.name)
        if p.limit is not None and size > p.limit:
            yield Fault("limit", f"pool {p.name} has {size} bytes, and its limit is {p.limit}", p.name)
    for b in problem.buffers:
        place = plan.places[b.name]
        offset, nbytes, size = number(place.offset), number(b.nbytes), number(plan.sizes[place.pool])
        at = f"buffer {titled(b)} at offset {offset} of pool {place.pool}"
        if max(offset, offset + nbytes) > MOST or offset < -MOST - 1:
            what = f"{at} ends at {offset + nbytes}, which is not in int64"
            yield Fault("overflow", what, place.pool, (b.name,), (offset, offset + nbytes))
        if nbytes < 0:
            yield Fault("size", f"buffer {titled(b)} has {nbytes} bytes", place.pool, (b.name,))
        if b.offset is not None and offset != b.offset:
            yield Fault("by hand", f"{at} was placed at {b.offset} by hand", place.pool, (b.name,))
        if offset < 0 or offset + nbytes > size:
            what = f"{at} does not lie within its {size} bytes: it takes {interval_text((offset, offset + nbytes))}"
            yield Fault("inside", what, place.pool, (b.name,), (offset, offset + nbytes))
        if offset % b.alignment:
            yield Fault("aligned", f"{at} is not aligned to {b.alignment}", place.pool, (b.name,))


def overlapping(problem: Problem, plan: Plan) -> Iterator[Fault]:
    """Every pair of buffers that share a byte of one pool at one position."""
    for a, b in combinations(problem.buffers, 2):
        if plan.places[a.name].pool == plan.places[b.name].pool:
            shared = _shared(plan, a), _shared(plan, b)
            low, high = max(shared[0][0], shared[1][0]), min(shared[0][1], shared[1][1])
            if low < high and (when := both_live(a, b)):
                yield clash(a, b, plan.places[a.name].pool, (low, high), when)


def _shared(plan: Plan, b: BufferInfo) -> Interval:
    offset = number(plan.places[b.name].offset)
    return offset, offset + number(b.nbytes)


def clash(a: BufferInfo, b: BufferInfo, pool: str, bytes_: Interval, when: Interval) -> Fault:
    """The fault that two buffers share bytes while both are live."""
    what = (
        f"buffers {titled(a)} and {titled(b)} share {interval_text(bytes_)} of pool {pool} while both are live, at"
        f" {interval_text(when, 'position')}"
    )
    return Fault("apart", what, pool, (a.name, b.name), bytes_, when)


def both_live(a: BufferInfo, b: BufferInfo) -> Interval | None:
    """The first positions at which two buffers are live, as one interval; None: there are none."""
    found = [(max(s, t), min(e, f)) for s, e in a.live for t, f in b.live if max(s, t) < min(e, f)]
    return min(found, default=None)


def titled(b: BufferInfo) -> str:
    """A buffer for people: its name, and what fills it."""
    return f"{b.name} ({b.producer})" if b.producer else b.name


def interval_text(interval: Interval, noun: str = "byte") -> str:
    """An interval with both ends for people."""
    first, last = interval[0], interval[1] - 1
    return f"{noun} {first}" if first == last else f"no {noun}s" if first > last else f"{noun}s {first} to {last}"


def number(dim: object) -> int:
    """A size that was evaluated, as an int."""
    assert isinstance(dim, int), "a size was not evaluated"
    return dim

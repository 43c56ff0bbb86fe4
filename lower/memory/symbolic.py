"""Offsets that are expressions, for buffers whose sizes are (specs/lower.md, "pool").

Which buffer lies above which is taken from a plan in numbers. Then every buffer begins where the highest of those
below it ends: a maximum of sums, of which the parts that are never larger than another are left out. Nothing here is
trusted: the plan is proved for all values of the symbols (`assay.verify.memory`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from itertools import product
from math import prod

from assay.lower.memory.arranging import arranged
from assay.lower.memory.classes import plan_by_class
from assay.lower.memory.orders import GOOD, MOST_PARTS, Measure, other_points, text_length
from assay.lower.memory.problem import check_names
from assay.lower.memory.sums import Sums
from assay.semantics.deadline import NEVER, Deadline, Late
from assay.semantics.errors import Invalid
from assay.semantics.integers.polynomials import Polynomial
from assay.semantics.memory import Bounds, BufferInfo, Place, Plan, Problem, conflicts, range_of
from assay.semantics.scalar import Dim, Expr, Var, evaluate_dim, variables

NOMINAL = 128
"""What a symbol without a greatest value counts as in the plan in numbers, if it may be so small."""

TRIED = 4096
"""In a box of so many points or fewer, the largest size is found by trying all of them."""

KEPT = 64
"""A part of a maximum is compared with at most so many others."""


def plan_symbolic(
    problem: Problem,
    planner: Callable[[Problem], Plan],
    at: Mapping[Var, int] | None = None,
    *,
    by_bound: bool = False,
    deadline: Deadline = NEVER,
) -> Plan:
    """The plan of a problem whose sizes may be expressions, stacked as `planner` stacks it in numbers.

    There every buffer has the largest size that it can have; where there is none, its size at `at`, for symbols that
    are not given at `NOMINAL`. Without `at`, limits and buffers placed by hand, other orders are tried where this one
    is bad at some sizes (`assay.lower.memory.orders`). `by_bound`: buffers all of whose symbols have a greatest value
    keep the largest size, so their offsets are numbers where nothing else lies below. A least value alone makes no size
    a number.

    Invalid (memory.C8): a buffer without a largest size can only lie in pools with a limit. Late: the time is up.
    Whatever else `planner` raises.
    """
    check_names(problem)
    buffers = problem.buffers
    sums = Sums(problem.bounds)
    most = {b.name: largest(b.nbytes, problem, sums) for b in buffers}
    ranked = tuple(replace(b, pools=unlimited(problem, b)) if most[b.name] is None else b for b in buffers)
    kept = tuple(_at_bound(b, most[b.name], problem.bounds) if by_bound else b for b in buffers)
    size = {b.name: sums.of(b.nbytes) for b in kept}

    def stacked(numbers: Mapping[str, int]) -> Plan:
        given = replace(problem, buffers=tuple(replace(b, nbytes=numbers[b.name]) for b in ranked), bounds={})
        found = planner(given)
        stack = Stack(problem, found, sums, size, deadline, {n for n in numbers if not numbers[n]})
        places = {b.name: Place(found.places[b.name].pool, sums.dim(stack.offset[b.name])) for b in buffers}
        sizes = {p.name: sums.dim(stack.top(p.name)) for p in problem.pools if p.name in found.sizes}
        return Plan(places, sizes, f"symbolic, stacked by {found.planner}" if found.planner else "symbolic")

    symbols = list(dict.fromkeys(v for b in buffers for v in variables(b.nbytes)))
    point = nominal(symbols, problem.bounds, at)
    made = stacked(
        {b.name: max(evaluate_dim(b.nbytes, point), 0) if (high := most[b.name]) is None else high for b in buffers}
    )
    fixed = any(p.limit is not None for p in problem.pools) or any(b.offset is not None for b in buffers)
    if at is not None or fixed or not any(isinstance(s, Expr) for s in made.sizes.values()):
        return made
    return _best(made, plan_by_class(problem, sums, size, made), replace(problem, buffers=kept), symbols, stacked)


def _at_bound(buffer: BufferInfo, most: int | None, bounds: Bounds) -> BufferInfo:
    """A buffer with the largest size that it has, if each of its symbols has a declared upper bound. One that is small
    for another reason, as min(n, 32) is, keeps its size: at a small n nobody expects more."""
    declared = all(range_of(bounds, v)[1] is not None for v in variables(buffer.nbytes))
    return replace(buffer, nbytes=most) if declared and most is not None else buffer


def _best(
    first: Plan,
    plain: Plan,
    problem: Problem,
    symbols: Sequence[Var],
    stacked: Callable[[Mapping[str, int]], Plan],
) -> Plan:
    """The plan, of those in some orders and of `plain`, that is least bad where it is worst; the first of equal ones. A
    plan that is too long to read is none. Where that is bad at some sizes, several of them together."""
    measure = Measure.of(symbols, problem)
    rated = {False: (first, measure.worst(first)), True: (plain, measure.worst(plain))}
    best, worst = rated[text_length(first) > MOST_PARTS or rated[True][1] < rated[False][1]]
    tried = [p for p in (first, plain) if text_length(p) <= MOST_PARTS]
    try:
        for point in other_points(symbols, problem):
            if worst <= GOOD:
                break
            made = stacked({b.name: max(evaluate_dim(b.nbytes, point), 0) for b in problem.buffers})
            if text_length(made) <= MOST_PARTS:
                tried.append(made)
                if (ratio := measure.worst(made)) < worst:
                    best, worst = made, ratio
    except Late:
        return best  # the best so far is a plan
    if best is plain and all(p is plain for p in tried) and text_length(first) > MOST_PARTS:
        return best  # no other order can be read
    others = [p for p in tried if p is not best]
    return arranged(best, others, problem, symbols, stacked)


def given_plan(problem: Problem, places: Mapping[str, Place]) -> Plan:
    """A given plan: each pool ends where the highest of its buffers does."""
    sums = Sums(problem.bounds)
    ends: dict[str, list[Polynomial]] = {}
    for b in problem.buffers:
        ends.setdefault(places[b.name].pool, []).append(sums.of(places[b.name].offset) + sums.of(b.nbytes))
    sizes = {p.name: sums.dim(sums.largest(ends.get(p.name, ()), KEPT)) for p in problem.pools}
    return Plan(places, sizes, "given")


class Stack:
    """The offset of every buffer: where the highest of those below it ends.

    Buffers come in the order of the plan in numbers, so whatever came before lies below. What is `empty` in numbers
    comes first: it may lie anywhere there, also inside of another buffer, and would be stacked above it. What was
    placed by hand stays: a buffer that may reach it lies above it.
    """

    def __init__(
        self,
        problem: Problem,
        found: Plan,
        sums: Sums,
        size: Mapping[str, Polynomial],
        deadline: Deadline = NEVER,
        empty: Set[str] = frozenset(),
    ) -> None:
        self.sums = sums
        self.size = size
        self.offset: dict[str, Polynomial] = {}
        self._pool = {n: p.pool for n, p in found.places.items()}
        hand = {b.name: b.offset for b in problem.buffers if b.offset is not None}
        index = {b.name: i for i, b in enumerate(problem.buffers)}
        beside: dict[str, list[str]] = {n: [] for n in index}
        for a, b in conflicts(problem.buffers):
            if self._pool[a.name] == self._pool[b.name]:
                beside[a.name].append(b.name)
                beside[b.name].append(a.name)
        self._rank: dict[str, int] = {}
        self._under: list[int] = []  # by rank: what a buffer is known to lie above, as bits by rank
        self.offset |= {n: sums.of(offset) for n, offset in hand.items()}
        for name in sorted(index, key=lambda n: (n not in hand, n not in empty, _offset(found, n), index[n])):
            deadline.check()
            if name not in hand:
                at = _offset(found, name)
                below = [n for n in beside[name] if n in self._rank and (n not in hand or hand[n] < at)]
                above = [n for n in beside[name] if n in hand and n not in below]
                alignment = problem.buffers[index[name]].alignment
                self._lay(name, below, alignment)
                for obstacle in sorted(above, key=lambda n: hand[n]):
                    end = sums.range(self.offset[name] + size[name])[1]
                    if end is None or end > hand[obstacle]:
                        below.append(obstacle)
                        self._lay(name, below, alignment)
            under = 0
            for n in self._kept(below) if name not in hand else ():
                under |= 1 << self._rank[n] | self._under[self._rank[n]]
            self._rank[name] = len(self._under)
            self._under.append(under)

    def _lay(self, name: str, below: Iterable[str], alignment: int) -> None:
        ends = [self.sums.aligned(self._end(n), alignment) for n in self._kept(below)]
        self.offset[name] = self.sums.largest(ends, KEPT)

    def _end(self, name: str) -> Polynomial:
        return self.offset[name] + self.size[name]

    def _kept(self, names: Iterable[str]) -> list[str]:
        """Those of some buffers that are not known to end below another of them."""
        kept, covered = [], 0
        for name in sorted(names, key=lambda n: self._rank[n], reverse=True):
            rank = self._rank[name]
            if not covered >> rank & 1:
                kept.append(name)
                covered |= self._under[rank]
        return kept

    def top(self, pool: str) -> Polynomial:
        """Where the highest buffer of a pool ends."""
        kept = self._kept(n for n, p in self._pool.items() if p == pool)
        return self.sums.largest([self._end(n) for n in kept], KEPT)


def _offset(found: Plan, name: str) -> int:
    offset = found.places[name].offset
    assert isinstance(offset, int), "a plan in numbers was asked for"
    return offset


def unlimited(problem: Problem, buffer: BufferInfo) -> tuple[str, ...]:
    """The pools without a limit that may hold a buffer without a largest size."""
    found = tuple(p.name for p in problem.candidates(buffer) if p.limit is None)
    hand = buffer.offset is not None and buffer.pools[:1] != found[:1]
    if not found or hand:
        limited = ", ".join(f"{p.name} ({p.limit} bytes)" for p in problem.candidates(buffer) if p.limit is not None)
        free = [v.name for v in variables(buffer.nbytes) if range_of(problem.bounds, v)[1] is None]
        why = f"no greatest value is known of {', '.join(free)}" if free else "no largest value is found of it"
        raise Invalid(
            f"buffer {buffer.name} has a symbolic size, and {why}, so nothing shows that it stays within the limit of"
            f" {limited or 'any pool'}: give an upper bound, or a pool without a limit",
            label="memory.C8",
        )
    return found


def nominal(symbols: Iterable[Var], bounds: Bounds, at: Mapping[Var, int] | None = None) -> dict[Var, int]:
    """A value for every symbol: the one given, else its greatest, else `NOMINAL` or more."""
    found, at = {}, at or {}
    for v in dict.fromkeys(symbols):
        low, high = range_of(bounds, v)
        found[v] = at.get(v, max(low, NOMINAL) if high is None else high)
    return found


def largest(size: Dim, problem: Problem, sums: Sums) -> int | None:
    """A number that a size never exceeds, the least such where the bounds allow few values; None: none is found."""
    if not isinstance(size, Expr):
        return size
    found = sums.range(sums.of(size))[1]
    ends = {v: range_of(problem.bounds, v) for v in variables(size)}
    corner = {v: high for v, (_, high) in ends.items() if high is not None}
    if len(corner) < len(ends) or found == evaluate_dim(size, corner):
        return found
    box = [range(ends[v][0], high + 1) for v, high in corner.items()]
    if 0 < prod(map(len, box)) <= TRIED:
        return max(evaluate_dim(size, dict(zip(corner, point, strict=True))) for point in product(*box))
    return found

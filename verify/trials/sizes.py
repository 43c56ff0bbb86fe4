"""Which sizes a check tries where sizes are unknown, and tensor functions at them (specs/verify.md, "Sizes that are
tried").

Every check that runs something at numbers takes them from here: two rows of primes, 0 and 1 for each symbol by itself,
and the ends of what is declared. What the constraints of a program or an operator exclude is left out by name.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, TypeAlias

from assay.semantics.errors import Trap
from assay.semantics.graph import Function
from assay.semantics.graph.limits import declared_limits
from assay.semantics.graph.sizes import sizes_in
from assay.semantics.memory import Bounds, range_of
from assay.semantics.scalar import Expr as Scalar, Load, Var as Symbol, const, evaluate_dim, substitute, variables
from assay.semantics.tensor import Buffer, For, PrimFunc, Stmt
from assay.semantics.tensor.blocks import without_blocks
from assay.semantics.tensor.mapping import Mapper, bound_buffers, bound_vars
from assay.semantics.walk import post_order

Sizes: TypeAlias = Mapping[Symbol, int]
"""A number for each symbol."""

Excluded: TypeAlias = Callable[[Sizes], str | None]
"""Why no run has these sizes: the constraint that they break, in words; None if some run has."""

Fitting: TypeAlias = Callable[[Sizes], Iterable[Sizes]]
"""Sizes at which what is known of them holds, some of which are given."""

SCALES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Where small sizes are excluded, larger ones are looked for: a window may need so many elements."""

MULTIPLES = (3, 6, 10, 12, 30, 60, 420)
"""What a size may have to be a multiple of, where it is cut into equal parts."""

SUMS = (2, 3, 5, 8, 13, 21, 34)
"""Each is the sum of the two before it: where one size must be that of two others, some order of these has it."""

MOST_ORDERS = 60
"""So many orders of `SUMS` are tried."""

MOST_TRIES = 100
"""So many choices are tried where one that fits is looked for."""


@dataclass(frozen=True)
class SizesToTry:
    """The sizes that a check tries, the most telling first, and those of interest that no run has."""

    points: tuple[Sizes, ...]
    excluded: tuple[tuple[Sizes, str], ...] = ()
    """Each with the constraint: some symbols, whatever the others are, as far as that was tried."""


def sizes_to_try(
    symbols: Iterable[Symbol],
    bounds: Bounds | None = None,
    excluded: Excluded = lambda sizes: None,
    most: int | None = None,
    fitting: Fitting = lambda fixed: (),
) -> SizesToTry:
    """Numbers for symbols of which some may have bounds: no more than `most` points, if that is given.

    First rows in which no two symbols are alike, in which each symbol takes different primes, of which one is 2; then
    each symbol as 0 and as 1, the others as in the first row, or as that too; then all symbols at the least and at the
    greatest number that is declared. Where constraints exclude a row, others are tried, those first that `fitting`
    gives. Without symbols there is one point.
    """
    search = _Search(tuple(dict.fromkeys(symbols)), bounds or {}, excluded, fitting)
    for tries, what in search.attempts():
        search.take(tries, what)
    return SizesToTry(tuple(search.points[:most]), tuple(search.left_out))


def first_to_try(
    symbols: Iterable[Symbol],
    bounds: Bounds | None = None,
    excluded: Excluded = lambda sizes: None,
    fitting: Fitting = lambda fixed: (),
    most: int = MOST_TRIES,
) -> Sizes | None:
    """The first point of `sizes_to_try`, looked for no further than it is found; None if it is not among the first
    `most` choices that are tried."""
    search = _Search(tuple(dict.fromkeys(symbols)), bounds or {}, excluded, fitting)
    for sizes in (sizes for tries, _ in search.attempts() for sizes in tries):
        if search.reason(sizes) is None:
            return sizes
        if len(search.known) >= most:
            break
    return None


def declared_bounds(function: Function) -> Bounds:
    """What a function declares of its symbols. Invalid (limits.C1 to C3): that is not what it may be."""
    return {symbol: (low, high) for symbol, low, high in declared_limits(function)}


def told_sizes(points: Iterable[Sizes]) -> str:
    """The numbers that each symbol takes: "batch = 0, 1, 2, 5; seq = 1, 2"."""
    taken: dict[str, set[int]] = {}
    for sizes in points:
        for symbol, n in sizes.items():
            taken.setdefault(symbol.name, set()).add(n)
    return "; ".join(f"{name} = {', '.join(map(str, sorted(found)))}" for name, found in taken.items())


def told_point(sizes: Sizes) -> str:
    """One choice of sizes: "batch = 0, seq = 5"."""
    return ", ".join(f"{symbol.name} = {n}" for symbol, n in sizes.items())


def told_by_reason(left_out: Iterable[tuple[Sizes, str]]) -> Iterator[tuple[str, str]]:
    """Sizes that were left out, by the reason, each said once: "batch = 0 or seq = 0", and the reason."""
    by_reason: dict[str, list[str]] = {}
    for sizes, why in left_out:
        by_reason.setdefault(why, []).append(told_point(sizes))
    return ((" or ".join(points), why) for why, points in by_reason.items())


def told_at(sizes: Sizes) -> str:
    """That something happens at a choice of sizes, if there are any: "at batch = 0, seq = 5"."""
    return f"at {told_point(sizes)}" if sizes else ""


@dataclass
class _Search:
    symbols: tuple[Symbol, ...]
    bounds: Bounds
    why_not: Excluded
    fitting: Fitting
    points: list[Sizes] = field(default_factory=list)
    left_out: list[tuple[Sizes, str]] = field(default_factory=list)
    known: dict[tuple[int, ...], str | None] = field(default_factory=dict)
    """The reason for each choice that was asked."""

    def attempts(self) -> Iterator[tuple[Iterable[Sizes], Sizes | None]]:
        """Choices of which the first that a run can have is taken, and what is left out where there is none."""
        turns = max(2, len(self.symbols)) if self.symbols else 1
        for turn in range(turns):
            yield self.rows(turn), None
        for symbol in self.symbols:
            for n in (0, 1):
                yield from self.alone(symbol, n)
        for end in (0, 1):
            yield from self.ends(end)

    def take(self, tries: Iterable[Sizes], what: Sizes | None) -> None:
        """The first of some sizes that a run can have; if there is none, `what` is left out with the first reason."""
        reason = ""
        for sizes in tries:
            if sizes in self.points:
                return
            why = self.reason(sizes)
            if why is None:
                self.points.append(sizes)
                return
            reason, what = reason or why, what or sizes
        if what is not None:
            self.left_out.append((what, reason))

    def reason(self, sizes: Sizes) -> str | None:
        """Why no run has these sizes; that another size has no value at them, as one that divides by 0, is a reason.
        Each choice is asked once."""
        key = tuple(sizes[s] for s in self.symbols)
        if key not in self.known:
            try:
                self.known[key] = self.why_not(sizes)
            except Trap as trap:
                self.known[key] = trap.message
        return self.known[key]

    def inside(self, symbol: Symbol, n: int) -> int:
        low, high = range_of(self.bounds, symbol)
        return max(low, n if high is None else min(n, high))

    def rows(self, turn: int) -> Iterator[Sizes]:
        """Different primes, of which one is 2, larger and larger, and multiples of powers of two, and equal sizes; then
        multiples of other numbers."""
        count = len(self.symbols)
        for scale in SCALES:
            low = max((range_of(self.bounds, s)[0] for s in self.symbols), default=0)
            even = max(2 * scale, low + low % 2)
            primes = _primes(max(even + 5, 4 * scale), max(2, count) - 1)
            yield self.row([even, *primes], turn)
            if scale == 1:
                yield from (row for row in self.fits({}) if row not in self.points)
            if scale == 1 and count > 1:
                yield from self.orders()
            if scale > 1:
                yield self.row([scale * (k + 1) for k in range(max(2, count))], turn)
                yield self.row([scale + turn % 2] * max(2, count), turn)
        for n in MULTIPLES:
            yield self.row([n * (k + 1) for k in range(max(2, count))], turn)
            yield self.row([n] * max(2, count), turn)

    def orders(self) -> Iterator[Sizes]:
        """Small numbers in different orders, those first in which no symbol is again what it was in some row."""
        count = len(self.symbols)
        values = [SUMS[k % len(SUMS)] for k in range(count + 1)]
        draw = random.Random(0)
        drawn = (self.row(draw.sample(values, count), 0) for _ in range(MOST_ORDERS))
        found = [row for row in drawn if row not in self.points]
        yield from sorted(found, key=lambda row: any(row[s] == p[s] for p in self.points for s in self.symbols))

    def fits(self, fixed: Sizes) -> Iterator[Sizes]:
        """What fits within the bounds."""
        for found in self.fitting(fixed):
            if all(self.inside(s, n) == n for s, n in found.items()):
                yield {s: found[s] for s in self.symbols}

    def row(self, values: Sequence[int], turn: int) -> Sizes:
        return {s: self.inside(s, values[(k + turn) % len(values)]) for k, s in enumerate(self.symbols)}

    def alone(self, symbol: Symbol, n: int) -> Iterator[tuple[Iterable[Sizes], Sizes | None]]:
        if self.inside(symbol, n) != n:
            return
        rows = self.points or [next(self.rows(0))]
        tries = [{**row, symbol: n} for row in rows if all(row[s] > 1 for s in self.symbols)]
        tries.append({s: self.inside(s, n) for s in self.symbols})
        yield chain(tries, self.fits({symbol: n})), {symbol: n}

    def ends(self, end: int) -> Iterator[tuple[Iterable[Sizes], Sizes | None]]:
        """All symbols at their least, or their greatest number, as far as that is declared; else each by itself."""
        found = {s: n for s in self.symbols if (n := self.bounds.get(s, (0, None))[end]) is not None and n > 1}
        if not found:
            return
        row: Sizes = self.points[0] if self.points else next(self.rows(0))
        if self.reason({**row, **found}) is None:
            yield [{**row, **found}], None
            return
        for s, n in found.items():
            yield [{**row, s: n}], {s: n}


def _primes(start: int, count: int) -> list[int]:
    found: list[int] = []
    n = start
    while len(found) < count:
        if n > 1 and all(n % k for k in range(2, int(n**0.5) + 1)):
            found.append(n)
        n += 1
    return found


# --- tensor functions ---------------------------------------------------------------------------------------------


def kernel_at(kernel: PrimFunc, sizes: Sizes) -> PrimFunc:
    """A tensor function with numbers for all symbols of its buffers and for its scalars: the same statements, in names
    of their own. Itself where it has no symbols."""
    if not sizes:
        return kernel
    params = tuple(
        Buffer(b.name, tuple(evaluate_dim(d, sizes) for d in b.shape), b.dtype, b.scope, b.notes) for b in kernel.params
    )
    return PrimFunc(kernel.name, params, kernel.num_outputs, body_at(kernel, params, sizes), kernel.attrs)


def body_at(kernel: PrimFunc, params: Sequence[Buffer], sizes: Sizes) -> Stmt:
    """The body of a tensor function with these buffers as its parameters, and numbers for its symbols and scalars; all
    other names in it are new."""
    plain = without_blocks(kernel)
    new = _AtSizes({v: const(n, v.dtype) for v, n in sizes.items()}, dict(zip(plain.params, params, strict=True)))
    for var in bound_vars(plain):
        new.vars.setdefault(var, Symbol(var.name, var.dtype))
    for b in bound_buffers(plain.body):
        shape = tuple(evaluate_dim(d, sizes) for d in b.shape)
        new.buffers[b] = Buffer(b.name, shape, b.dtype, b.scope, b.notes)
    return new.run(plain.body)


def claimed_attributes(kernel: PrimFunc) -> Mapping[str, Any]:
    """The attributes that a tensor function claims, in its own symbols. It says them in those of its first use, after
    which its scalars are called unless a buffer has the name."""
    claims = kernel.attrs.get("attrs", {})
    told = {s for b in kernel.params for d in b.shape for s in variables(d)}
    own = {s.name: s for s in (*told, *kernel.scalars)}
    used = dict.fromkeys(sizes_in(claims.values()))
    found = {s: s if s in told else own[s.name] for s in used if s in told or s.name in own}
    left = [s for s in kernel.scalars if s not in found.values()]  # both in the order of their first use
    found |= dict(zip((s for s in used if s not in found), left, strict=False))

    def at(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(at, value))
        return substitute(value, found) if isinstance(value, Scalar) else value

    return {k: at(v) for k, v in claims.items()}


def numbers_in(value: Any, sizes: Sizes) -> Any:
    """An attribute with numbers for the sizes in it."""
    if isinstance(value, tuple):
        return tuple(numbers_in(v, sizes) for v in value)
    if isinstance(value, Mapping):
        return {k: numbers_in(v, sizes) for k, v in value.items()}
    return evaluate_dim(value, sizes) if isinstance(value, Scalar) else value


class _AtSizes(Mapper):
    """Extents that are numbers now are written as numbers."""

    def own(self, s: Stmt) -> Stmt:
        found = super().own(s)
        if isinstance(found, For) and not any(isinstance(n, (Symbol, Load)) for n in post_order(found.extent)):
            return replace(found, extent=const(evaluate_dim(found.extent, {})))
        return found

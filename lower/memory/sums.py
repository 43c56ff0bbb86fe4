"""Sizes and offsets as sums of products, for the planner of symbolic sizes (specs/lower.md, "pool").

A sum stays short: what is a multiple of an alignment is so by its factors, equal parts are one, and a part of a maximum
that is never larger than another is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

from assay.semantics.memory import Bounds, range_of
from assay.semantics.scalar import Apply, Const, Dim, Expr, Interner, Var, apply
from assay.semantics.walk import post_order

Range: TypeAlias = tuple[int | None, int | None]
"""A least and a greatest value; None: none is known."""

ONE: tuple[int, ...] = ()
"""The product of nothing."""

OPENED = 100
"""A product of sums with more terms than this is one part."""


@dataclass(frozen=True)
class Sum:
    """Whole multiples of products of parts, by number; no factor is 0."""

    terms: tuple[tuple[tuple[int, ...], int], ...]

    def plus(self, other: Sum, factor: int = 1) -> Sum:
        terms = dict(self.terms)
        for p, k in other.terms:
            terms[p] = terms.get(p, 0) + factor * k
        return make(terms)


def make(terms: Mapping[tuple[int, ...], int]) -> Sum:
    return Sum(tuple(sorted((p, k) for p, k in terms.items() if k)))


class Sums:
    """Sums over the parts of one problem. A symbol without bounds is 0 or more."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._intern = Interner()
        self._numbers: dict[int, int] = {}  # from a structure's number to a part's
        self._parts: list[Expr] = []
        self._ranges: list[Range] = []
        self._memo: dict[int, tuple[Expr, Sum]] = {}
        self._products: dict[tuple[int, ...], Expr] = {}
        self._made: dict[Sum, Dim] = {}

    def of(self, dim: Dim) -> Sum:
        """The sum that a dim is."""
        if not isinstance(dim, Expr):
            return make({ONE: dim})
        memo = self._memo
        for node in post_order(dim, lambda n: () if id(n) in memo else n.children):
            if id(node) not in memo:
                memo[id(node)] = node, self._node(node, [memo[id(c)][1] for c in node.children])
        return memo[id(dim)][1]

    def _node(self, node: Expr, args: list[Sum]) -> Sum:
        match node:
            case Const() if node.dtype.is_integer:
                return make({ONE: int(node.value)})
            case Var():
                return self._part(node, range_of(self._bounds, node))
            case Apply(op="add" | "sub" as op):
                return args[0].plus(args[1], 1 if op == "add" else -1)
            case Apply(op="neg"):
                return make({}).plus(args[0], -1)
            case Apply(op="mul") if len(args[0].terms) * len(args[1].terms) <= OPENED:
                terms: dict[tuple[int, ...], int] = {}
                for p, k in args[0].terms:
                    for q, m in args[1].terms:
                        both = tuple(sorted(p + q))
                        terms[both] = terms.get(both, 0) + k * m
                return make(terms)
            case Apply(op="floordiv") if (by := _constant(args[1])) is not None and by > 0:
                return self.divided(args[0], by)
            case Apply(op="floormod") if (by := _constant(args[1])) is not None and by > 0:
                return args[0].plus(self.divided(args[0], by), -by)
            case Apply(op="max"):
                return self.largest(args, 1)
            case Apply(op="min") if node.dtype.is_integer:
                (low, high), (least, most) = self.range(args[0]), self.range(args[1])
                ends = [e for e in (high, most) if e is not None]
                return self._part(
                    node, (None if low is None or least is None else min(low, least), min(ends, default=None))
                )
            case _:
                return self._part(node, (None, None))

    def _part(self, expr: Expr, within: Range) -> Sum:
        structure = self._intern(expr)
        if structure not in self._numbers:
            self._numbers[structure] = len(self._parts)
            self._parts.append(expr)
            self._ranges.append(within)
        return make({(self._numbers[structure],): 1})

    def divided(self, total: Sum, by: int) -> Sum:
        """The quotient, rounded down: what is a multiple of the divisor comes out of it."""
        out = make({p: k // by for p, k in total.terms})
        rest = make({p: k % by for p, k in total.terms})
        if (number := _constant(rest)) is not None:
            return out.plus(make({ONE: number // by}))
        low, high = self.range(rest)
        dim = self.dim(rest)
        assert isinstance(dim, Expr)
        within = None if low is None else low // by, None if high is None else high // by
        return out.plus(self._part(apply("floordiv", dim, by), within))

    def aligned(self, total: Sum, alignment: int) -> Sum:
        """The next multiple of an alignment."""
        return make({}).plus(self.divided(total.plus(make({ONE: alignment - 1})), alignment), alignment)

    def largest(self, ends: Iterable[Sum], factor: int, most: int = 64) -> Sum:
        """The maximum of sums of 0 or more whose terms have a common factor; 0 of none.

        A sum that is never more than one of the `most` first is left out.
        """
        kept: list[Sum] = []
        for end in sorted(dict.fromkeys(ends), key=lambda s: (-len(s.terms), s.terms)):
            if not any(self.never_less(other, end) for other in kept[:most]):
                kept = [k for k in kept[:most] if not self.never_less(end, k)] + kept[most:] + [end]
        if len(kept) < 2:
            return kept[0] if kept else make({})
        over = [make({p: k // factor for p, k in end.terms}) for end in kept]
        ranges = [self.range(s) for s in over]
        lows, highs = [low for low, _ in ranges if low is not None], [high for _, high in ranges]
        top = None if None in highs else max(h for h in highs if h is not None)
        whole: list[Dim] = [*map(self.dim, over)]
        while len(whole) > 1:  # in pairs, so that no part lies deep
            odd = whole[len(whole) & ~1 :]
            whole = [apply("max", a, b) for a, b in zip(whole[::2], whole[1::2], strict=False)]
            whole += odd
        assert isinstance(whole[0], Expr)
        return make({}).plus(self._part(whole[0], (max(lows, default=None), top)), factor)

    def never_less(self, a: Sum, b: Sum) -> bool:
        """Whether one sum is shown never to be less than another."""
        low, _ = self.range(a.plus(b, -1))
        return low is not None and low >= 0

    def range(self, total: Sum) -> Range:
        """Where the values of a sum lie."""
        low: int | None = 0
        high: int | None = 0
        for p, k in total.terms:
            least, most = self._reach(p)
            if k < 0:
                least, most = most, least
            low = None if low is None or least is None else low + k * least
            high = None if high is None or most is None else high + k * most
        return low, high

    def _reach(self, parts: tuple[int, ...]) -> Range:
        """Where a product of parts lies: nothing is said if one of several may be negative."""
        ranges = [self._ranges[p] for p in parts]
        if len(ranges) == 1:
            return ranges[0]
        least = most = 1
        endless = False
        for low, high in ranges:
            if low is None or low < 0:
                return None, None
            least *= low
            endless = endless or high is None
            most *= 0 if high is None else high
        return least, None if endless else most

    def dim(self, total: Sum) -> Dim:
        """The expression of a sum, one for each."""
        if total not in self._made:
            whole: Dim = 0
            for p, k in sorted(total.terms, key=lambda t: t[0] == ONE):  # the number comes last
                term: Dim = k if p == ONE else self._product(p) * k
                whole = term if isinstance(whole, int) and whole == 0 else whole + term
            self._made[total] = whole
        return self._made[total]

    def _product(self, parts: tuple[int, ...]) -> Expr:
        if parts not in self._products:
            self._products[parts] = reduce(lambda a, b: a * b, (self._parts[p] for p in parts))
        return self._products[parts]


def _constant(total: Sum) -> int | None:
    if not total.terms:
        return 0
    return total.terms[0][1] if len(total.terms) == 1 and total.terms[0][0] == ONE else None

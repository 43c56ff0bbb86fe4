"""Sizes and offsets as polynomials, for the planner of symbolic sizes (specs/lower.md, "pool").

An offset stays short: what is a multiple of an alignment is so by its factors, equal parts are one, and a part of a
maximum that is never larger than another is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from assay.semantics.dtypes import INT64
from assay.semantics.integers.polynomials import (
    ZERO,
    Atom,
    Extreme,
    Polynomial,
    PolynomialQuotient,
    Polynomials,
    Product,
    Symbol,
    Unknown,
    number,
)
from assay.semantics.integers.ranges import at_least
from assay.semantics.memory import Bounds
from assay.semantics.scalar import Dim, Expr, apply, cast


class Sums(Polynomials):
    """The polynomials of one problem, and the expressions of them. A symbol without bounds is 0 or more."""

    def __init__(self, bounds: Bounds) -> None:
        super().__init__(bounds)
        self._exprs: list[Expr] = []  # of atoms, as far as they are made
        self._products: dict[Product, Expr] = {}
        self._made: dict[Polynomial, Dim] = {}

    def aligned(self, total: Polynomial, alignment: int) -> Polynomial:
        """The next multiple of an alignment."""
        whole = self.quotient(total + number(alignment - 1), number(alignment))
        assert whole is not None, "an alignment is 1 or more"
        return whole.scaled(alignment)

    def largest(self, ends: Iterable[Polynomial], most: int = 64) -> Polynomial:
        """The maximum of what is 0 or more; 0 of none. What is never more than one of the `most` first is left out."""
        kept: list[Polynomial] = []
        for end in sorted(dict.fromkeys(ends), key=lambda s: (-len(s.terms), s.ordered, s.constant)):
            if not any(self.never_less(other, end) for other in kept[:most]):
                kept = [k for k in kept[:most] if not self.never_less(end, k)] + kept[most:] + [end]
        while len(kept) > 1:  # in pairs, so that no part lies deep
            odd = kept[len(kept) & ~1 :]
            kept = [self.extreme("max", a, b) for a, b in zip(kept[::2], kept[1::2], strict=False)] + odd
        return kept[0] if kept else ZERO

    def never_less(self, a: Polynomial, b: Polynomial) -> bool:
        """Whether one is shown never to be less than another."""
        return at_least(self.range(a - b), 0)

    def dim(self, total: Polynomial) -> Dim:
        """The expression of a polynomial, one for each."""
        for atom in self.atoms[len(self._exprs) :]:  # each is made of those before it
            self._exprs.append(self._expression(atom))
        return self._sum(total)

    def _expression(self, atom: Atom) -> Expr:
        match atom:
            case Symbol(var=expr) | Unknown(expr=expr):
                return cast(expr, INT64)
            case PolynomialQuotient(dividend=a, divisor=b):
                return apply("floordiv", self._sum(a), self._sum(b))
            case Extreme(which=which, first=a, second=b):
                return apply(which, self._sum(a), self._sum(b))

    def _sum(self, total: Polynomial) -> Dim:
        if total not in self._made:
            whole: Dim = 0
            for p, k in total.ordered:
                term = self._product(p) * k
                whole = term if isinstance(whole, int) else whole + term
            self._made[total] = whole + total.constant  # the number comes last
        return self._made[total]

    def _product(self, parts: Product) -> Expr:
        if parts not in self._products:
            self._products[parts] = reduce(lambda a, b: a * b, (self._exprs[p] for p in parts))
        return self._products[parts]

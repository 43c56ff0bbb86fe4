"""The linear facts that hold of sizes and offsets (specs/verify.md, "Memory plans").

A product of atoms is one unknown to the solver: what it needs to know are facts, each of which says that a polynomial
is 0 or more. So every question about a plan is linear. Polynomials are the planner's own (`assay.lower.memory.sums`):
nothing here believes them, for z3 is asked of each whether it is what its expression says, and of each fact whether it
follows (`assay.verify.memory.grounds`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

from assay.semantics.integers.polynomials import (
    Extreme,
    Polynomial,
    PolynomialQuotient,
    Polynomials,
    Product,
    Symbol,
    Unknown,
    number,
    one,
    polynomial_range,
    product_range,
    value,
)
from assay.semantics.integers.ranges import Range, at_least
from assay.semantics.memory import Bounds
from assay.semantics.scalar import Expr
from assay.semantics.walk import Worklist

FEW = 8
"""Of so many dims that are assumed to be 0 or more the products of two are facts too."""


class Forms(Polynomials):
    """The polynomials of one plan, and the facts about them."""

    def __init__(self, bounds: Bounds) -> None:
        super().__init__(bounds)
        self.given: dict[Polynomial, Expr] = {}
        """What is 0 or more in every run, and is no more than assumed."""
        self.known: tuple[Polynomial, ...] = ()
        """What is given, and the products of two such."""

    def give(self, dims: Iterable[Expr]) -> None:
        """Assume that some dims are 0 or more."""
        self.given |= {self.of(d): d for d in dims}
        pairs = combinations(self.given, 2) if len(self.given) <= FEW else ()
        products = (self.product(a, b) for a, b in pairs)
        self.known = (*self.given, *(f for f in products if f is not None))

    def allowed(self, values: Sequence[int]) -> bool:
        """Whether what is given holds at values of the atoms."""
        return all(value(f, values) >= 0 for f in self.given)

    def of_given(self, product: Product, ranges: Sequence[Range]) -> Iterator[Polynomial]:
        """Multiples of what is given in which a product stands, by what is never below 0: none in which a product has
        more factors than that or two, or each would lead to a longer one."""
        for f in self.known:
            degree = max((len(p) for p in f.terms), default=0)
            for part in f.terms:
                if degree + len(product) - len(part) > max(len(product), 2):
                    continue
                rest = Counter(product)
                rest.subtract(part)
                others = tuple(sorted(rest.elements()))
                fits = min(rest.values()) >= 0 and (not others or at_least(product_range(others, ranges), 0))
                if fits and (found := self.product(f, one(others))) is not None:
                    yield found

    def facts(self, wanted: Iterable[Polynomial], ranges: list[Range] | None = None) -> Iterator[Polynomial]:
        """Polynomials that are 0 or more, whatever the symbols: all that is said of what the wanted ones speak of."""
        ranges = self.ranges if ranges is None else ranges
        work = Worklist[Product]([p for f in wanted for p in f.terms], lambda product: product)
        for product in work:
            for fact in self._facts(product, ranges):
                work.add(fact.terms)
                yield fact

    def _facts(self, product: Product, ranges: list[Range]) -> Iterator[Polynomial]:
        yield from limits(product, ranges)
        yield from self.of_given(product, ranges)
        whole = one(product)
        if len(product) > 1:
            yield from self.envelopes(product, ranges)
            return
        match self.atoms[product[0]]:
            case PolynomialQuotient(dividend=a, divisor=b):
                down = self.product(whole, b)
                if down is not None:
                    yield a - down
                    yield down + b - number(1) - a
                if at_least(polynomial_range(a, ranges), 0):
                    yield a - whole
            case Extreme(which="max", first=a, second=b):
                yield whole - a
                yield whole - b
            case Extreme(first=a, second=b):
                yield a - whole
                yield b - whole
            case Symbol() | Unknown():
                pass

    def envelopes(self, product: Product, ranges: list[Range]) -> Iterator[Polynomial]:
        """What the ranges of its factors say of a product; of a long one, of its first factor only."""
        for i in range(len(product) if len(product) <= 4 else 1):
            yield from self._envelope((product[i],), product[:i] + product[i + 1 :], ranges)

    def _envelope(self, x: Product, y: Product, ranges: list[Range]) -> Iterator[Polynomial]:
        """What bounds of two factors say of their product: (x - low)(y - least) >= 0, and so on."""
        whole, left, right = one(tuple(sorted(x + y))), one(x), one(y)
        (low, high), (least, most) = product_range(x, ranges), product_range(y, ranges)
        for end, other, sign in ((low, least, 1), (high, most, 1), (low, most, -1), (high, least, -1)):
            if end is not None and other is not None:
                fact = whole - left.scaled(other) - right.scaled(end) + number(end * other)
                yield fact.scaled(sign)

    def either(self, wanted: Iterable[Polynomial]) -> Iterator[tuple[Polynomial, Polynomial]]:
        """Pairs of polynomials of which one is 0, for every maximum and minimum that the wanted ones speak of, at any
        depth."""
        atoms = {a for f in [*wanted] for g in [f, *self.facts([f])] for p in g.terms for a in p}
        for a in sorted(atoms):
            match self.atoms[a]:
                case Extreme(first=first, second=second):
                    yield one((a,)) - first, one((a,)) - second
                case _:
                    pass


def limits(product: Product, ranges: Sequence[Range]) -> Iterator[Polynomial]:
    """What its range says of a product."""
    low, high = product_range(product, ranges)
    if low is not None:
        yield one(product) - number(low)
    if high is not None:
        yield number(high) - one(product)

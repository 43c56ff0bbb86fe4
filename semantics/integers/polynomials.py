"""Sizes and offsets as polynomials over numbered atoms, and where their values lie (specs/semantics.md, "Integers").

Integers are unbounded here. An atom is a symbol, a quotient, a maximum or minimum, or a part of which nothing is known
but where it lies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import gcd, prod
from typing import Literal, TypeAlias

from assay.semantics.errors import Crash
from assay.semantics.integers import ranges as intervals
from assay.semantics.integers.linear import Form, combined
from assay.semantics.integers.ranges import EVERYTHING, Range, at_least, at_most, fits_dtype, reach, union
from assay.semantics.memory import Bounds, range_of
from assay.semantics.scalar.evaluation import evaluate_dim
from assay.semantics.scalar.expression import Apply, Cast, Choice, Const, Dim, Expr, Var
from assay.semantics.scalar.structure import Interner
from assay.semantics.walk import post_order

Product: TypeAlias = tuple[int, ...]
"""A product of one atom or more, by number, in order."""

LARGE = 200
"""A product of sums with more terms than this stays unopened."""


class Polynomial(Form[Product]):
    """Integer multiples of products of atoms, and a constant."""

    @cached_property
    def ordered(self) -> tuple[tuple[Product, int], ...]:
        """Products and their factors, in the order of the products."""
        return tuple(sorted(self.terms.items()))

    def times(self, other: Polynomial) -> Polynomial:
        """The product."""
        terms: dict[Product, int] = {}
        for p, k in (*self.terms.items(), ((), self.constant)):
            for q, m in (*other.terms.items(), ((), other.constant)):
                both = tuple(sorted(p + q))
                terms[both] = terms.get(both, 0) + k * m
        constant = terms.pop(())
        return self.of(terms, constant)


ZERO = Polynomial({})


def number(value: int) -> Polynomial:
    """The polynomial that is a number."""
    return Polynomial({}, value)


def one(product: Product) -> Polynomial:
    """A product by itself; 1 if it is of nothing."""
    return Polynomial({product: 1}) if product else Polynomial({}, 1)


def without_multiples(f: Polynomial, of: Polynomial) -> Polynomial:
    """What is left of `f` when multiples of another polynomial are taken away, which is 0 where that is: the remainder
    of the division by its leading product."""
    common = gcd(of.constant, *of.terms.values())
    lead = max(of.terms, key=lambda p: (len(p), p), default=None)
    if lead is None:
        return f
    divisor = of.divided(common)[0]
    by = divisor.terms[lead]
    while found := next((p for p, k in f.terms.items() if k % by == 0 and not Counter(lead) - Counter(p)), None):
        rest = one(tuple(sorted((Counter(found) - Counter(lead)).elements())))
        f = f - divisor.times(rest).scaled(f.terms[found] // by)
    return f


@dataclass(frozen=True)
class Symbol:
    """An unknown number."""

    var: Var


@dataclass(frozen=True)
class PolynomialQuotient:
    """The quotient, rounded down, by something that is never 0 or less."""

    dividend: Polynomial
    divisor: Polynomial


@dataclass(frozen=True)
class Extreme:
    """The larger or the smaller of two."""

    which: Literal["max", "min"]
    first: Polynomial
    second: Polynomial


@dataclass(frozen=True)
class Unknown:
    """What is not looked into: an expression. Its value is one of `ends`, if there are any."""

    number: int
    expr: Expr = field(compare=False)
    ends: tuple[Polynomial, ...] = field(compare=False)


Atom: TypeAlias = Symbol | PolynomialQuotient | Extreme | Unknown


class Polynomials:
    """The polynomials of the expressions of one problem; equal atoms have one number. `bounds` say where symbols lie.

    A symbol without bounds is 0 or more, as every dim is.
    """

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.atoms: list[Atom] = []
        self.ranges: list[Range] = []
        self._numbers: dict[Atom, int] = {}
        self._memo: dict[int, Polynomial] = {}
        self._alive: list[Expr] = []
        self._intern = Interner()

    def of(self, dim: Dim) -> Polynomial:
        """The polynomial of a dim."""
        if not isinstance(dim, Expr):
            return number(int(dim))
        memo = self._memo
        for node in post_order(dim, lambda n: () if id(n) in memo else n.children):
            if id(node) not in memo:
                self._alive.append(node)
                memo[id(node)] = self._node(node)
        return memo[id(dim)]

    def symbols(self) -> tuple[Var, ...]:
        """The integer symbols of every expression seen so far."""
        return tuple(node for node in self._alive if isinstance(node, Var) and node.dtype.is_integer)

    def nodes(self) -> Iterator[tuple[Expr, Polynomial]]:
        """Every part of every expression seen so far that is an integer, and its polynomial."""
        return ((node, self._memo[id(node)]) for node in self._alive if node.dtype.is_integer)

    def parts(self) -> Iterator[tuple[Expr, Polynomial, tuple[Polynomial, ...]]]:
        """Every part of every expression seen so far that is an integer, its polynomial, and those of its operands."""
        for node, f in self.nodes():
            yield node, f, tuple(self._memo[id(c)] for c in node.children)

    def same(self, a: Expr, b: Expr) -> bool:
        """Whether two expressions are written alike."""
        return self._intern(a) == self._intern(b)

    # --- from expressions ---------------------------------------------------------------------------------------

    def _node(self, node: Expr) -> Polynomial:
        args = [self._memo[id(c)] for c in node.children]
        if not node.dtype.is_integer:
            return self._unknown(node)
        match node:
            case Const():
                return number(int(node.value))
            case Var():
                return self._atom(Symbol(node))
            case Cast(arg=arg) if arg.dtype.is_integer and fits_dtype(self.range(args[0]), node.dtype):
                return args[0]
            case Choice() | Apply(op="select"):
                return args[2] if self._alike(node.children[0], args[1], args[2]) else self._unknown(node, *args[1:])
            case Apply() if node.children and all(c.dtype.is_integer for c in node.children):
                found = self._applied(node.op, args)
                return self._unknown(node) if found is None else found
            case _:
                return self._unknown(node)

    def _alike(self, condition: Expr, a: Polynomial, b: Polynomial) -> bool:
        """Whether a choice of a or b is b in any case: they are one, or the condition is that they are."""
        if a == b:
            return True
        if not isinstance(condition, Apply) or condition.op != "eq":
            return False
        left, right = (self._memo[id(c)] for c in condition.children)
        return a - b in (left - right, right - left)

    def _applied(self, op: str, args: list[Polynomial]) -> Polynomial | None:
        first, second = args[0], args[-1]
        by = second.as_number
        match op:
            case "mul":
                return self.product(first, second)
            case "max" | "min" as which:
                return self.extreme(which, first, second)
            case "abs":
                return self.extreme("max", first, first.scaled(-1))
            case "shl" if by is not None and 0 <= by < 64:
                return first.scaled(1 << by)
            case "shr" if by is not None and 0 <= by < 64:
                return self.quotient(first, number(1 << by))
            case "floordiv":
                return self.quotient(first, second)
            case "floormod" if (q := self.quotient(first, second)) is not None:
                down = self.product(q, second)
                return None if down is None else first - down
            case "truncdiv" | "truncmod" if at_least(self.range(first), 0):
                return self._applied("floordiv" if op == "truncdiv" else "floormod", args)
            case "truncdiv" if at_least(self.range(second), 1):  # rounded down above 0, and up below
                down, up = self.quotient(first, second), self.quotient(first.scaled(-1), second)
                assert down is not None and up is not None
                return self.extreme("max", down, ZERO) - self.extreme("max", up, ZERO)
            case "truncmod" if (q := self._applied("truncdiv", args)) is not None:
                whole = self.product(q, second)
                return None if whole is None else first - whole
            case _:
                return combined(op, args)

    def product(self, a: Polynomial, b: Polynomial) -> Polynomial | None:
        """The product; None where it has too many terms."""
        return a.times(b) if len(a.terms) * len(b.terms) <= LARGE else None

    def quotient(self, a: Polynomial, b: Polynomial) -> Polynomial | None:
        """The quotient, rounded down; None where the divisor may be 0 or less. What is a multiple of it leaves:
        (c * x + r) // c is x + r // c."""
        by = b.as_number
        if by is None:
            return self._atom(PolynomialQuotient(a, b)) if at_least(self.range(b), 1) else None
        if by < 1:
            return None
        out, rest = a.divided(by)
        return out + (self._atom(PolynomialQuotient(rest, b)) if rest.terms else number(rest.constant // by))

    def extreme(self, which: Literal["max", "min"], a: Polynomial, b: Polynomial) -> Polynomial:
        """A maximum or minimum. What both have in common leaves, and a common factor: max(x + 4a, x + 4b) is
        x + 4 * max(a, b)."""
        difference = self.range(a - b)
        if at_least(difference, 0) or at_most(difference, 0):
            larger, smaller = (a, b) if at_least(difference, 0) else (b, a)
            return larger if which == "max" else smaller
        common = Polynomial.of(
            {p: _common(k, b.terms.get(p, 0)) for p, k in a.terms.items()}, _common(a.constant, b.constant)
        )
        a, b = a - common, b - common
        factor = gcd(*a.terms.values(), a.constant, *b.terms.values(), b.constant)
        first, second = sorted((f.divided(factor)[0] for f in (a, b)), key=lambda f: (f.ordered, f.constant))
        return common + self._atom(Extreme(which, first, second)).scaled(factor)

    def _unknown(self, node: Expr, *ends: Polynomial) -> Polynomial:
        return self._atom(Unknown(self._intern(node), node, ends))

    def _atom(self, atom: Atom) -> Polynomial:
        if atom not in self._numbers:
            self._numbers[atom] = len(self.atoms)
            self.atoms.append(atom)
            self.ranges.append(self.atom_range(atom, self.bounds, self.ranges))
        return one((self._numbers[atom],))

    # --- where values lie ----------------------------------------------------------------------------------------

    def range(self, f: Polynomial) -> Range:
        """Where the values of a polynomial lie, within the bounds."""
        return polynomial_range(f, self.ranges)

    def ranges_within(self, bounds: Bounds) -> list[Range]:
        """The ranges of all atoms for bounds that are narrower than its own."""
        found: list[Range] = []
        for atom in self.atoms:
            found.append(self.atom_range(atom, bounds, found))
        return found

    def atom_range(self, atom: Atom, bounds: Bounds, ranges: Sequence[Range]) -> Range:
        """Where the values of an atom lie, symbols lying in bounds and the atoms before it in `ranges`."""
        match atom:
            case Symbol(var=var):
                return range_of(bounds, var)
            case PolynomialQuotient(dividend=a, divisor=b):
                return intervals.quotient(polynomial_range(a, ranges), polynomial_range(b, ranges))
            case Extreme(which=which, first=a, second=b):
                return reach(which, [polynomial_range(a, ranges), polynomial_range(b, ranges)])
            case Unknown(ends=(a, b)):
                return union(polynomial_range(a, ranges), polynomial_range(b, ranges))
            case Unknown():
                return EVERYTHING

    # --- at values ---------------------------------------------------------------------------------------------------

    def values(self, at: Mapping[Var, int]) -> list[int]:
        """The value of each atom, exactly. Trap: a part has none there."""
        found: list[int] = []
        for atom in self.atoms:
            match atom:
                case Symbol(var=var):
                    found.append(at[var])
                case PolynomialQuotient(dividend=a, divisor=b):
                    found.append(value(a, found) // value(b, found))
                case Extreme(which=which, first=a, second=b):
                    found.append((max if which == "max" else min)(value(a, found), value(b, found)))
                case Unknown(expr=expr):
                    found.append(evaluate_dim(expr, at) if expr.dtype.is_integer else 0)
                case _:
                    raise Crash(f"no such atom: {type(atom).__name__}")
        return found


def value(f: Polynomial, values: Sequence[int]) -> int:
    """The value of a polynomial at values of the atoms."""
    return f.value(lambda p: prod(values[a] for a in p))


def _common(j: int, k: int) -> int:
    """What two factors of one sign have in common."""
    return min(j, k, key=abs) if j * k > 0 else 0


def polynomial_range(f: Polynomial, ranges: Sequence[Range]) -> Range:
    """Where the values of a polynomial lie, atoms lying in `ranges`."""
    return f.range(lambda p: product_range(p, ranges))


def product_range(product: Product, ranges: Sequence[Range]) -> Range:
    """Where the values of a product lie, atoms lying in `ranges`."""
    found = ranges[product[0]] if product else (1, 1)
    for a in product[1:]:
        found = intervals.times(found, ranges[a])
    return found

"""Sizes and offsets as polynomials over atoms, and the linear facts that hold of them (specs/verify.md, "Memory
plans").

Integers are unbounded here. An atom is a symbol, a quotient, a maximum or minimum, or a part of which nothing is known
but where it lies. A product of atoms is one unknown to the solver: what it needs to know are facts, each of which says
that a form is 0 or more. So every question about a plan is linear.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import gcd
from typing import Literal, TypeAlias

from assay.semantics.dtypes import DType
from assay.semantics.errors import Crash
from assay.semantics.memory import Bounds, range_of
from assay.semantics.scalar import Apply, Cast, Choice, Const, Dim, Expr, Interner, Var, evaluate_dim
from assay.semantics.walk import post_order

Product: TypeAlias = tuple[int, ...]
"""A product of atoms, by number, in order; () is 1."""

Range: TypeAlias = tuple[int | None, int | None]
"""The least and the greatest value; None: there is none, or it is not known."""

LARGE = 200
"""A product of sums with more terms than this stays unopened."""


@dataclass(frozen=True)
class Form:
    """A polynomial: integer factors of products of atoms, none of them 0, in the order of the products."""

    terms: tuple[tuple[Product, int], ...]

    @property
    def constant(self) -> int | None:
        """The number that it is, if it is one."""
        return 0 if not self.terms else self.terms[0][1] if self.terms[0][0] == () and len(self.terms) == 1 else None

    def __add__(self, other: Form) -> Form:
        return plus(self, other, 1)

    def __sub__(self, other: Form) -> Form:
        return plus(self, other, -1)

    def times(self, factor: int) -> Form:
        return Form(tuple((p, k * factor) for p, k in self.terms)) if factor else ZERO

    def over(self, divisor: int) -> Form:
        """This divided by a divisor of all of its factors."""
        return Form(tuple((p, k // divisor) for p, k in self.terms))

    def divides(self, divisor: int) -> bool:
        """Whether a number divides every factor."""
        return all(k % divisor == 0 for _, k in self.terms)


ZERO = Form(())


def form(terms: Mapping[Product, int]) -> Form:
    return Form(tuple(sorted((p, k) for p, k in terms.items() if k)))


def whole(value: int) -> Form:
    return Form((((), value),)) if value else ZERO


def plus(a: Form, b: Form, sign: int) -> Form:
    if not b.terms:
        return a
    terms = dict(a.terms)
    for p, k in b.terms:
        terms[p] = terms.get(p, 0) + sign * k
    return form(terms)


@dataclass(frozen=True)
class Symbol:
    var: Var


@dataclass(frozen=True)
class Quotient:
    """The quotient, rounded down, by something that is never 0 or less."""

    dividend: Form
    divisor: Form


@dataclass(frozen=True)
class Extreme:
    which: Literal["max", "min"]
    first: Form
    second: Form


@dataclass(frozen=True)
class Unknown:
    """What is not looked into: an expression. Its value is one of `ends`, if there are any."""

    number: int
    expr: Expr = field(compare=False)
    ends: tuple[Form, ...] = field(compare=False)


Atom: TypeAlias = Symbol | Quotient | Extreme | Unknown


class Forms:
    """The forms of the expressions of one problem; equal atoms have one number. `bounds` say where symbols lie.

    A symbol without bounds is 0 or more, as every dim is.
    """

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.atoms: list[Atom] = []
        self.ranges: list[Range] = []
        self._numbers: dict[Atom, int] = {}
        self._memo: dict[int, Form] = {}
        self._alive: list[Expr] = []
        self._intern = Interner()

    def of(self, dim: Dim) -> Form:
        """The form of a dim."""
        if not isinstance(dim, Expr):
            return whole(int(dim))
        memo = self._memo
        for node in post_order(dim, lambda n: () if id(n) in memo else n.children):
            if id(node) not in memo:
                self._alive.append(node)
                memo[id(node)] = self._node(node)
        return memo[id(dim)]

    def symbols(self) -> tuple[Var, ...]:
        """The integer symbols of every expression seen so far."""
        return tuple(node for node in self._alive if isinstance(node, Var) and node.dtype.is_integer)

    def nodes(self) -> Iterator[tuple[Expr, Form]]:
        """Every part of every expression seen so far that is an integer, and its form."""
        return ((node, self._memo[id(node)]) for node in self._alive if node.dtype.is_integer)

    def parts(self) -> Iterator[tuple[Expr, Form, tuple[Form, ...]]]:
        """Every part of every expression seen so far that is an integer, its form, and those of its operands."""
        for node, f in self.nodes():
            yield node, f, tuple(self._memo[id(c)] for c in node.children)

    def same(self, a: Expr, b: Expr) -> bool:
        """Whether two expressions are written alike."""
        return self._intern(a) == self._intern(b)

    # --- from expressions ---------------------------------------------------------------------------------------

    def _node(self, node: Expr) -> Form:
        args = [self._memo[id(c)] for c in node.children]
        if not node.dtype.is_integer:
            return self._unknown(node)
        match node:
            case Const():
                return whole(int(node.value))
            case Var():
                return self._atom(Symbol(node))
            case Cast(arg=arg) if arg.dtype.is_integer and _within(self.range(args[0]), node.dtype):
                return args[0]
            case Choice() | Apply(op="select"):
                return self._unknown(node, args[1], args[2])
            case Apply() if node.children and all(c.dtype.is_integer for c in node.children):
                found = self._applied(node.op, args)
                return self._unknown(node) if found is None else found
            case _:
                return self._unknown(node)

    def _applied(self, op: str, args: list[Form]) -> Form | None:
        first, second = args[0], args[-1]
        by = second.constant
        match op:
            case "add":
                return first + second
            case "sub":
                return first - second
            case "neg":
                return first.times(-1)
            case "mul":
                return self.product(first, second)
            case "max" | "min":
                return self.extreme("max" if op == "max" else "min", first, second)
            case "abs":
                return self.extreme("max", first, first.times(-1))
            case "shl" if by is not None and 0 <= by < 64:
                return first.times(1 << by)
            case "shr" if by is not None and 0 <= by < 64:
                return self.quotient(first, whole(1 << by))
            case "floordiv":
                return self.quotient(first, second)
            case "floormod" if (q := self.quotient(first, second)) is not None:
                down = self.product(q, second)
                return None if down is None else first - down
            case "truncdiv" | "truncmod" if at_least(self.range(first), 0):
                return self._applied("floordiv" if op == "truncdiv" else "floormod", args)
            case _:
                return None

    def product(self, a: Form, b: Form) -> Form | None:
        if len(a.terms) * len(b.terms) > LARGE:
            return None
        terms: dict[Product, int] = {}
        for p, k in a.terms:
            for q, m in b.terms:
                both = tuple(sorted(p + q))
                terms[both] = terms.get(both, 0) + k * m
        return form(terms)

    def quotient(self, a: Form, b: Form) -> Form | None:
        """What is a multiple of the divisor leaves: (c * x + r) // c is x + r // c. None: the divisor may be 0 or
        less."""
        by = b.constant
        if by is None:
            return self._atom(Quotient(a, b)) if at_least(self.range(b), 1) else None
        if by < 1:
            return None
        out = form({p: k // by for p, k in a.terms})
        rest = form({p: k % by for p, k in a.terms})
        if rest.constant is not None:
            return out + whole(rest.constant // by)
        return out + self._atom(Quotient(rest, b))

    def extreme(self, which: Literal["max", "min"], a: Form, b: Form) -> Form:
        """What both have in common leaves, and a common factor: max(x + 4a, x + 4b) is x + 4 * max(a, b)."""
        low, high = self.range(a - b)
        if low is not None and low >= 0 or high is not None and high <= 0:
            larger, smaller = (a, b) if low is not None and low >= 0 else (b, a)
            return larger if which == "max" else smaller
        other = dict(b.terms)
        common = form({p: min(k, other[p], key=abs) for p, k in a.terms if k * other.get(p, 0) > 0})
        a, b = a - common, b - common
        factor = gcd(*(k for _, k in a.terms + b.terms))
        first, second = sorted((a.over(factor), b.over(factor)), key=lambda f: f.terms)
        return common + self._atom(Extreme(which, first, second)).times(factor)

    def _unknown(self, node: Expr, *ends: Form) -> Form:
        return self._atom(Unknown(self._intern(node), node, ends))

    def _atom(self, atom: Atom) -> Form:
        number = self._numbers.get(atom)
        if number is None:
            number = self._numbers[atom] = len(self.atoms)
            self.atoms.append(atom)
            self.ranges.append(self.atom_range(atom, self.bounds, self.ranges))
        return Form((((number,), 1),))

    # --- where values lie ----------------------------------------------------------------------------------------

    def range(self, f: Form) -> Range:
        """Where the values of a form lie, within the bounds."""
        return form_range(f, self.ranges)

    def ranges_within(self, bounds: Bounds) -> list[Range]:
        """The ranges of all atoms for bounds that are narrower than those of the forms."""
        found: list[Range] = []
        for atom in self.atoms:
            found.append(self.atom_range(atom, bounds, found))
        return found

    def atom_range(self, atom: Atom, bounds: Bounds, ranges: list[Range]) -> Range:
        match atom:
            case Symbol(var=var):
                return range_of(bounds, var)
            case Quotient(dividend=a, divisor=b):
                (low, high), (least, most) = form_range(a, ranges), form_range(b, ranges)
                assert least is not None and least > 0
                ends = [None if low is None else low // least, None if high is None else high // least]
                if low is not None and low >= 0:
                    ends[0] = 0 if most is None else low // most
                if high is not None and high < 0:
                    ends[1] = -1 if most is None else high // most
                return ends[0], ends[1]
            case Extreme(which=which, first=a, second=b):
                (low, high), (least, most) = form_range(a, ranges), form_range(b, ranges)
                if which == "max":
                    return max((x for x in (low, least) if x is not None), default=None), _most(high, most)
                return _least(low, least), min((x for x in (high, most) if x is not None), default=None)
            case Unknown(ends=(a, b)):
                (low, high), (least, most) = form_range(a, ranges), form_range(b, ranges)
                return _least(low, least), _most(high, most)
            case Unknown():
                return None, None

    # --- facts -----------------------------------------------------------------------------------------------------

    def facts(self, wanted: Iterable[Form], ranges: list[Range] | None = None) -> Iterator[Form]:
        """Forms that are 0 or more, whatever the symbols: all that is said of what the wanted forms speak of."""
        ranges = self.ranges if ranges is None else ranges
        todo = [p for f in wanted for p, _ in f.terms]
        seen: set[Product] = {()}
        while todo:
            product = todo.pop()
            if product in seen:
                continue
            seen.add(product)
            for fact in self._facts(product, ranges):
                todo.extend(p for p, _ in fact.terms)
                yield fact

    def _facts(self, product: Product, ranges: list[Range]) -> Iterator[Form]:
        one = Form(((product, 1),))
        low, high = product_range(product, ranges)
        if low is not None:
            yield one - whole(low)
        if high is not None:
            yield whole(high) - one
        if len(product) > 1:
            yield from self.envelopes(product, ranges)
            return
        match self.atoms[product[0]]:
            case Quotient(dividend=a, divisor=b):
                down = self.product(one, b)
                if down is not None:
                    yield a - down
                    yield down + b - whole(1) - a
                if at_least(form_range(a, ranges), 0):
                    yield a - one
            case Extreme(which="max", first=a, second=b):
                yield one - a
                yield one - b
            case Extreme(first=a, second=b):
                yield a - one
                yield b - one
            case Symbol() | Unknown():
                pass

    def envelopes(self, product: Product, ranges: list[Range]) -> Iterator[Form]:
        """What the ranges of its factors say of a product; of a long one, of its first factor only."""
        for i in range(len(product) if len(product) <= 4 else 1):
            yield from self._envelope((product[i],), product[:i] + product[i + 1 :], ranges)

    def _envelope(self, x: Product, y: Product, ranges: list[Range]) -> Iterator[Form]:
        """What bounds of two factors say of their product: (x - low)(y - least) >= 0, and so on."""
        one, left, right = (Form(((p, 1),)) for p in (tuple(sorted(x + y)), x, y))
        (low, high), (least, most) = product_range(x, ranges), product_range(y, ranges)
        for end, other, sign in ((low, least, 1), (high, most, 1), (low, most, -1), (high, least, -1)):
            if end is not None and other is not None:
                fact = one - left.times(other) - right.times(end) + whole(end * other)
                yield fact.times(sign)

    def either(self, wanted: Iterable[Form]) -> Iterator[tuple[Form, Form]]:
        """Pairs of forms of which one is 0, for every maximum and minimum that the wanted forms speak of, at any
        depth."""
        atoms = {a for f in [*wanted] for g in [f, *self.facts([f])] for p, _ in g.terms for a in p}
        for a in sorted(atoms):
            match self.atoms[a]:
                case Extreme(first=first, second=second):
                    one = Form((((a,), 1),))
                    yield one - first, one - second
                case _:
                    pass

    # --- at values ---------------------------------------------------------------------------------------------------

    def values(self, at: Mapping[Var, int]) -> list[int]:
        """The value of each atom, exactly. Trap: a part has none there."""
        found: list[int] = []
        for atom in self.atoms:
            match atom:
                case Symbol(var=var):
                    found.append(at[var])
                case Quotient(dividend=a, divisor=b):
                    found.append(value(a, found) // value(b, found))
                case Extreme(which="max", first=a, second=b):
                    found.append(max(value(a, found), value(b, found)))
                case Extreme(first=a, second=b):
                    found.append(min(value(a, found), value(b, found)))
                case Unknown(expr=expr):
                    found.append(evaluate_dim(expr, at) if expr.dtype.is_integer else 0)
                case _:
                    raise Crash(f"no such atom: {type(atom).__name__}")
        return found


def value(f: Form, values: list[int]) -> int:
    total = 0
    for p, k in f.terms:
        for a in p:
            k *= values[a]
        total += k
    return total


def form_range(f: Form, ranges: list[Range]) -> Range:
    low: int | None = 0
    high: int | None = 0
    for p, k in f.terms:
        least, most = product_range(p, ranges)
        if k < 0:
            least, most = most, least
        low = None if low is None or least is None else low + k * least
        high = None if high is None or most is None else high + k * most
    return low, high


def product_range(product: Product, ranges: list[Range]) -> Range:
    found: Range = 1, 1
    for a in product:
        found = _times(found, ranges[a])
    return found


def _times(a: Range, b: Range) -> Range:
    if a == (1, 1):
        return b
    (low, high), (least, most) = a, b
    if low is not None and low >= 0 and least is not None and least >= 0:
        top = None if high is None or most is None else high * most
        return low * least, 0 if 0 in (high, most) else top
    if low is None or high is None or least is None or most is None:
        return None, None
    ends = [x * y for x in (low, high) for y in (least, most)]
    return min(ends), max(ends)


def at_least(found: Range, value: int) -> bool:
    return found[0] is not None and found[0] >= value


def _within(found: Range, of: DType) -> bool:
    low, high = found
    return low is not None and high is not None and int(of.min) <= low and high <= int(of.max)


def _least(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else min(a, b)


def _most(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else max(a, b)

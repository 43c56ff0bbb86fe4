"""Index expressions as linear forms of variables and quotients, in which nothing wraps (specs/semantics.md,
"Integers").

An atom is a variable or a quotient `form // divisor` that arithmetic could not remove (a remainder is written with its
quotient). Equal forms are equal index functions. A form is given only where the ranges of all variables show that no
step of the expression leaves its dtype.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import TypeAlias

from assay.semantics.integers.linear import Form, combined
from assay.semantics.integers.ranges import EVERYTHING, Interval, Range, at_least, closed, compare, fits_dtype, reach
from assay.semantics.scalar import Apply, Cast, Const, Expr, Var, operation
from assay.semantics.walk import post_order

Ranges: TypeAlias = Mapping[Var, Interval]
DEEPEST = 8


@dataclass(frozen=True)
class AffineQuotient:
    """`form // divisor`, rounded down; the divisor is positive."""

    form: Affine
    divisor: int

    @cached_property
    def depth(self) -> int:
        """How many quotients lie inside one another."""
        return 1 + max((a.depth for a in self.form.terms if isinstance(a, AffineQuotient)), default=0)


Atom: TypeAlias = Var | AffineQuotient


class Affine(Form[Atom]):
    """A sum of nonzero multiples of variables and quotients, and a constant."""

    def without(self, atom: Atom) -> Affine:
        """The form less its multiple of an atom."""
        return Affine({a: k for a, k in self.terms.items() if a is not atom}, self.constant)

    @cached_property
    def variables(self) -> frozenset[Var]:
        """The variables in it, those inside quotients too."""
        found: set[Var] = set()
        for a in self.terms:
            found |= {a} if isinstance(a, Var) else a.form.variables
        return frozenset(found)

    @property
    def is_linear(self) -> bool:
        """Whether it has no quotients."""
        return all(isinstance(a, Var) for a in self.terms)

    def interval(self, ranges: Ranges) -> Interval | None:
        """Bounds of its value, attained where it is linear; None where a variable has no known range."""
        return closed(self.range(lambda a: atom_range(a, ranges)))


def atom_range(atom: Atom, ranges: Ranges) -> Range:
    """Where the values of an atom lie."""
    if isinstance(atom, Var):
        return ranges.get(atom, EVERYTHING)
    inside = atom.form.range(lambda a: atom_range(a, ranges))
    return reach("floordiv", [inside, (atom.divisor, atom.divisor)])


def affine(expr: Expr, ranges: Ranges) -> Affine | None:
    """The form of an integer expression, or None where it has none: loads, products of variables, possible wrapping."""
    return affine_forms(expr, ranges)[id(expr)]


def affine_forms(expr: Expr, ranges: Ranges) -> dict[int, Affine | None]:
    """The forms of an expression and of the operands of its operations, by identity."""
    forms: dict[int, Affine | None] = {}
    for node in post_order(expr, lambda n: n.children if isinstance(n, (Apply, Cast)) else ()):
        args = [forms[id(c)] for c in node.children] if isinstance(node, (Apply, Cast)) else []
        known = [a for a in args if a is not None]
        form = _form(node, known, ranges) if len(known) == len(args) and node.dtype.is_integer else None
        if form is not None and not _fits(form, node, ranges):
            form = None
        forms[id(node)] = form
    return forms


def _fits(form: Affine, node: Expr, ranges: Ranges) -> bool:
    if isinstance(node, Var):
        return True
    if len(form.terms) == 1 and form.constant == 0:
        (atom,) = form.terms
        if isinstance(atom, Var) and form.terms[atom] == 1 and atom.dtype is node.dtype:
            return True
    return fits_dtype(form.range(lambda a: atom_range(a, ranges)), node.dtype)


def _form(node: Expr, args: list[Affine], ranges: Ranges) -> Affine | None:
    match node:
        case Const():
            return Affine({}, int(node.value))
        case Var():
            return Affine({node: 1})
        case Cast(arg=arg) if arg.dtype.is_integer:
            return args[0]
        case Apply(op="floordiv" | "floormod" | "truncdiv" | "truncmod" as op) if not args[1].terms:
            divisor = args[1].constant
            inside = args[0].interval(ranges)
            if divisor <= 0 or inside is None or (op.startswith("trunc") and not at_least(inside, 0)):
                return None
            whole = affine_quotient(args[0], divisor, ranges)
            if whole is None or op.endswith("div"):
                return whole
            return args[0].plus(whole, -divisor)
        case Apply(op=op):
            return combined(op, args)
        case _:
            return None


def affine_quotient(form: Affine, divisor: int, ranges: Ranges) -> Affine | None:
    """`form // divisor`: multiples of the divisor come out, and what is left is put in lowest terms."""
    out = Affine({a: k // divisor for a, k in form.terms.items() if k % divisor == 0}, form.constant // divisor)
    rest = Affine({a: k for a, k in form.terms.items() if k % divisor}, form.constant % divisor)
    # (g*q + r) // (g*d) is q // d where 0 <= r < g
    for g in sorted({gcd(k, divisor) for k in rest.terms.values()} | {divisor}, reverse=True):
        big = Affine({a: k // g for a, k in rest.terms.items() if k % g == 0}, rest.constant // g)
        inside = Affine({a: k for a, k in rest.terms.items() if k % g}, rest.constant % g).interval(ranges)
        if g > 1 and inside is not None and 0 <= inside[0] and inside[1] < g:
            rest, divisor = big, divisor // g
            break
    if divisor == 1:
        return out.plus(rest)
    if not rest.terms:
        return out.plus(Affine({}, rest.constant // divisor))
    if len(rest.terms) == 1 and rest.constant == 0:
        ((atom, factor),) = rest.terms.items()
        if isinstance(atom, AffineQuotient) and factor == 1:  # (f // a) // b is f // (a*b)
            inner = affine_quotient(atom.form, atom.divisor * divisor, ranges)
            return None if inner is None else out.plus(inner)
    atom = AffineQuotient(rest, divisor)
    return out.plus(Affine({atom: 1})) if atom.depth <= DEEPEST else None


def decide(condition: Expr, ranges: Ranges) -> bool | None:
    """Whether a condition holds for all values in the ranges (True), for none (False), or neither is shown (None)."""
    known: dict[int, bool | None] = {}
    for node in post_order(condition, lambda n: n.children if isinstance(n, Apply) else ()):
        known[id(node)] = _decide(node, known, ranges)
    return known[id(condition)]


def _decide(node: Expr, known: Mapping[int, bool | None], ranges: Ranges) -> bool | None:
    match node:
        case Const() if node.dtype.kind == "bool":
            return bool(node.value)
        case Apply(op="and" | "or" as op, args=(a, b)):
            left, right = known[id(a)], known[id(b)]
            if left is None or right is None:  # both sides are evaluated, and an unknown one may trap
                return None
            return left and right if op == "and" else left or right
        case Apply(op="not", args=(a,)):
            inner = known[id(a)]
            return None if inner is None else not inner
        case Apply(op=op, args=(a, b)) if operation(op).has("compares") and a.dtype.is_integer:
            x, y = affine(a, ranges), affine(b, ranges)
            if x is None or y is None:
                return None
            return compare(op, x.plus(y, -1).range(lambda v: atom_range(v, ranges)))
        case _:
            return None

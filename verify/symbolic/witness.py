"""Which iteration of a write gave an element its value: witnesses (specs/verify.md, "Proofs for all sizes").

Goals carry witnesses instead of existentials. A witness is solved for from the write's indices: sums of multiples of
loop variables from the largest multiple down, quotients and remainders of one sum from all of them together. What no
equation fixes is the first, the last or the previous iteration. A wrong witness proves nothing, and claims nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import z3

from assay.semantics.integers.linear import Form, combined
from assay.semantics.scalar import LINEAR, Apply, Cast, Const, Expr, Interner, Load, Var, substitute
from assay.semantics.scalar.smt import Term, Unwrapped
from assay.semantics.walk import post_order
from assay.verify.symbolic.events import EventScope, Let, Loop, Site, scope_chain
from assay.verify.symbolic.instance import Instance

Factor: TypeAlias = Any
"""An int, or a z3 term."""


Linear: TypeAlias = Form[Expr]
"""A sum of multiples of atoms (unknown loop variables, quotients and remainders of sums of them) and a known rest.
Factors and rest may be terms of z3."""


@dataclass(eq=False)
class Solver:
    """Solves for the loops of `frames`, whose values are not given, in the environment of `known`."""

    known: Instance
    site: Site
    frames: Sequence[EventScope]
    found: dict[Var, Term] = field(default_factory=dict)
    number: Interner = field(default_factory=Interner)
    atoms: dict[int, Expr] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.loops = {f.var: f for f in self.frames if isinstance(f, Loop)}
        self.inlined: dict[Var, Expr] = {}
        for f in scope_chain(self.site.frame):
            if isinstance(f, Let):
                self.inlined[f.var] = self.inline(f.value)

    def inline(self, expr: Expr) -> Expr:
        """An expression with lets and iterators of blocks replaced by what they are."""
        return substitute(expr, self.inlined) if self.inlined else expr

    def solve(self, equations: Sequence[tuple[Expr, Term]]) -> None:
        """Take values from equations between an expression of the write and a known term, as far as they give some."""
        pending = [(self.linear(self.inline(e)), value) for e, value in equations]
        left = [(form, value) for form, value in pending if form is not None]
        for _ in range(len(self.loops) + 1):
            left, groups, progress = self._pass(left)
            for sum_, value in groups:
                form = self.linear(sum_)
                if form is not None:
                    left.append((form, value))
                    progress = True
            if progress:
                continue
            if not left:
                return
            form, value = left.pop(0)
            self.digits(form, value)

    def _pass(
        self, left: Sequence[tuple[Linear, Term]]
    ) -> tuple[list[tuple[Linear, Term]], list[tuple[Expr, Term]], bool]:
        """Equations with one unknown; quotients and remainders of one sum give the sum."""
        rest: list[tuple[Linear, Term]] = []
        parts: dict[int, tuple[Expr, Term]] = {}
        progress = False
        for form, value in left:
            form = self.settled(form)
            if len(form.terms) != 1:
                rest += [(form, value)] if form.terms else []
                continue
            ((atom, factor),) = form.terms.items()
            at = value - form.constant
            if not _is(factor, 1):
                at = -at if _is(factor, -1) else self.known.query.terms.divided(at, _term(factor))[0]
            progress = True
            if isinstance(atom, Var):
                self.found[atom] = at
                continue
            sum_, step = _digit(atom)
            weight = 1 if step is None else self.factor(step)
            if weight is not None:
                key = self.number(sum_)
                before = parts[key][1] if key in parts else z3.IntVal(0)
                parts[key] = sum_, before + at * _term(weight)
        return rest, list(parts.values()), progress

    def digits(self, form: Linear, value: Term) -> None:
        """A sum of several unknowns: each is the quotient by its factor, from the largest factor down."""
        order = sorted(form.terms, key=lambda a: self._size(form.terms[a], a), reverse=True)
        if not all(isinstance(a, Var) for a in order):
            return
        rest = value - form.constant
        terms = self.known.query.terms
        for k, v in enumerate(order):
            assert isinstance(v, Var)
            factor = form.terms[v]
            last = k == len(order) - 1
            low, extent = self.bounds(v)
            if isinstance(factor, int) and factor < 0:  # counted from the end
                if extent is None:
                    return
                top = low + extent - 1
                rest = rest - factor * top
                q = terms.divided(rest, z3.IntVal(-factor))[0]
                self.found[v] = top - q
                rest = rest + factor * q
                continue
            rest = rest - _term(factor) * low
            q = rest if _is(factor, 1) else terms.divided(rest, _term(factor))[0]
            if extent is not None and not last:
                q = z3.If(q < extent, q, extent - 1)
            self.found[v] = low + q
            rest = rest - _term(factor) * q

    def _size(self, factor: Factor, atom: Expr) -> tuple[int, int, int]:
        """How large a factor is: symbolic ones beyond numbers, those of outer loops first."""
        depth = -list(self.loops).index(atom) if isinstance(atom, Var) and atom in self.loops else 0
        return (0, abs(factor), depth) if isinstance(factor, int) else (1, 0, depth)

    def bounds(self, var: Var) -> tuple[Term, Term | None]:
        """Start and extent of a loop, where they are known by now."""
        stmt = self.loops[var].stmt
        start = z3.IntVal(0) if stmt.start is None else self.factor(self.inline(stmt.start))
        extent = self.factor(self.inline(stmt.extent))
        return (z3.IntVal(0) if start is None else _term(start)), None if extent is None else _term(extent)

    def settled(self, form: Linear) -> Linear:
        """A form with what was found put in."""
        rest, terms = form.constant, {}
        for atom, k in form.terms.items():
            known = self.found.get(atom) if isinstance(atom, Var) else self.factor(atom)
            if known is None:
                terms[atom] = k
            else:
                rest = rest + _term(k) * known
        return Form(terms, rest)

    def factor(self, expr: Expr) -> Factor | None:
        """The term of an expression without unknowns."""
        for node in post_order(expr):
            if isinstance(node, Var) and node in self.loops and node not in self.found:
                return None
            if isinstance(node, Var) and node not in self.loops and node not in self.known.env:
                return None
            if isinstance(node, Load):
                return None
        value = self.known.query.terms.value(expr, Unwrapped({**self.known.env, **self.found}), {})
        plain = z3.simplify(value)
        return plain.as_long() if z3.is_int_value(plain) else value

    def linear(self, expr: Expr) -> Linear | None:
        """An expression as a sum of atoms; None where it is none."""
        forms: dict[int, Linear | None] = {}
        for node in post_order(expr, lambda n: n.children if _is_sum(n) else ()):
            known = None if _is_sum(node) and not isinstance(node, Const) else self.factor(node)
            forms[id(node)] = Form({}, known) if known is not None else self._sum(node, forms)
        return forms[id(expr)]

    def _sum(self, node: Expr, forms: Mapping[int, Linear | None]) -> Linear | None:
        match node:
            case Var():
                return Form({node: 1}) if node in self.loops else None
            case Cast(arg=arg):
                return forms[id(arg)]
            case Apply(op="floordiv" | "floormod" | "truncdiv" | "truncmod", args=(_, b)) if self.factor(b) is not None:
                return Form({self.atoms.setdefault(self.number(node), node): 1})
            case Apply():
                args = [form for a in node.args if (form := forms.get(id(a))) is not None]
                return combined(node.op, args) if len(args) == len(node.args) else None
            case _:
                return None

    def values(self, default: str, strict: EventScope | None, before: Term | None) -> dict[EventScope, Term]:
        """A value for each loop: what was found, else the first or the last iteration; for `strict` the one
        `before`."""
        made: dict[EventScope, Term] = {}
        for f in self.frames:
            var = f.var if isinstance(f, Loop) else None
            if var is not None and var not in self.found:
                if f is strict and default != "first" and before is not None:
                    self.found[var] = before - 1
                else:
                    low, extent = self.bounds(var)
                    self.found[var] = low + extent - 1 if default == "last" and extent is not None else low
            if var is not None:
                made[f] = self.found[var]
            elif f is strict and before is not None:
                made[f] = before - 1
        return made


def _is_sum(node: Expr) -> bool:
    return isinstance(node, Cast) or (isinstance(node, Apply) and node.op in LINEAR)


def _digit(atom: Expr) -> tuple[Expr, Expr | None]:
    """The sum of which an atom is a digit, and the digit's weight: `sum // w`, `sum % m`, `(sum // w) % m`,
    `(sum % m) // w`."""
    assert isinstance(atom, Apply)
    inner, by = atom.args
    below = inner if isinstance(inner, Apply) else None
    if atom.op in ("floordiv", "truncdiv"):
        return (below.args[0] if below is not None and below.op in ("floormod", "truncmod") else inner), by
    return (
        (below.args[0], below.args[1]) if below is not None and below.op in ("floordiv", "truncdiv") else (inner, None)
    )


def _is(factor: Factor, value: int) -> bool:
    return isinstance(factor, int) and factor == value


def _term(factor: Factor) -> Term:
    return z3.IntVal(factor) if isinstance(factor, int) else factor

"""Goals about a plan with symbolic sizes, and their text (specs/verify.md, "Memory plans").

A goal holds if one of its ways does, for all values of the symbols; a way says that one sum is at least another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import z3

from assay.semantics.errors import Crash
from assay.semantics.memory import Bounds, BufferInfo, Plan, Pool, range_of
from assay.semantics.scalar import Dim, Expr, Load, Var, show
from assay.semantics.scalar.smt import Term, Terms
from assay.verify.memory.definition import Claim, called
from assay.verify.memory.forms import ZERO, Extreme, Form, Forms, Product, Quotient, Range, Symbol, Unknown
from assay.verify.memory.query import comment, literal


@dataclass(frozen=True)
class Way:
    """The sum of `more` is at least that of `less`: `form` is their difference."""

    form: Form
    more: tuple[Dim, ...]
    less: tuple[Dim, ...]


@dataclass(frozen=True)
class Goal:
    """One of the ways holds; with `multiple`, the form of the only one is divisible by it."""

    claim: Claim
    about: str
    pool: str
    buffers: tuple[str, ...]
    ways: tuple[Way, ...]
    multiple: int = 0


@dataclass
class Goals:
    """The goals of one plan, made from its dims."""

    forms: Forms
    plan: Plan

    def _way(self, more: Sequence[Dim], less: Sequence[Dim]) -> Way:
        total = ZERO
        for sign, dims in ((1, more), (-1, less)):
            for dim in dims:
                total = total + self.forms.of(dim).times(sign)
        return Way(total, tuple(more), tuple(less))

    def of_pool(self, pool: Pool) -> Iterator[Goal]:
        size = self.plan.sizes.get(pool.name, 0)
        about = f"pool {pool.name}"
        yield Goal("size", f"{about} has no less than 0 bytes", pool.name, (), (self._way([size], []),))
        if pool.limit is not None:
            yield Goal("limit", f"{about} is within its limit", pool.name, (), (self._way([pool.limit], [size]),))

    def of_buffer(self, b: BufferInfo) -> Iterator[Goal]:
        """All that is asked of one buffer but that it ends within its pool."""
        offset = self.plan.places[b.name].offset
        yield self.sized(b)
        yield self._goal("inside", b, "begins at 0 or later", self._way([offset], []))
        if b.offset is not None:
            yield self._goal("by hand", b, "is not before its place", self._way([offset], [b.offset]))
            yield self._goal("by hand", b, "is not after its place", self._way([b.offset], [offset]))
        aligned = self._goal("aligned", b, f"is aligned to {b.alignment}", self._way([offset], []))
        yield replace(aligned, multiple=b.alignment)

    def sized(self, b: BufferInfo) -> Goal:
        return self._goal("size", b, "has no less than 0 bytes", self._way([b.nbytes], []))

    def inside(self, b: BufferInfo) -> Goal:
        place = self.plan.places[b.name]
        way = self._way([self.plan.sizes[place.pool]], [place.offset, b.nbytes])
        return self._goal("inside", b, "ends within its pool", way)

    def _goal(self, claim: Claim, b: BufferInfo, about: str, way: Way) -> Goal:
        return Goal(claim, f"buffer {called(b)} {about}", self.plan.places[b.name].pool, (b.name,), (way,))

    def below(self, a: BufferInfo, b: BufferInfo) -> Goal:
        """That the one ends before the other begins."""
        place, above = self.plan.places[a.name], self.plan.places[b.name]
        way = self._way([above.offset], [place.offset, a.nbytes])
        return Goal("apart", f"buffer {called(a)} ends below {called(b)}", place.pool, (a.name, b.name), (way,))

    def apart(self, a: BufferInfo, b: BufferInfo) -> Goal:
        """That two share no byte: either lies below the other, or has no bytes."""
        ways = (
            *self.below(a, b).ways,
            *self.below(b, a).ways,
            self._way([], [a.nbytes]),
            self._way([], [b.nbytes]),
        )
        pool = self.plan.places[a.name].pool
        return Goal("apart", f"buffers {called(a)} and {called(b)} share no byte", pool, (a.name, b.name), ways)


# --- as linear text --------------------------------------------------------------------------------------------------


def local_text(goals: Sequence[tuple[Goal, Sequence[Form]]], forms: Forms, about: str) -> str:
    """The text that is satisfiable if some goal does not follow from the facts that stand with it; `bad` is its number."""
    names = _Names(forms)
    facts = {f: i for i, f in enumerate(dict.fromkeys(f for _, found in goals for f in found))}
    defined = [f"(define-fun f{i} () Bool (>= {names.sum(f)} 0))" for f, i in facts.items()]
    claims = []
    for i, (goal, found) in enumerate(goals):
        claims.append(f"  ; {i}: {comment(goal.about)}")
        beside = "".join(f" f{facts[f]}" for f in dict.fromkeys(found))
        claims.append(f"  (and (= bad {i}) {names.wrong(goal)}{beside})")
    return _text(about, len(goals), len(facts), [*names.declared(), *defined], claims)


def linear_text(goals: Sequence[Goal], forms: Forms, about: str, ranges: list[Range] | None = None, *, deep: bool = False) -> str:
    """The text that is satisfiable if the linear facts allow some goal to be wrong; `bad` is its number.

    Satisfiable does not mean wrong, for of products only some facts are known. `deep`: a maximum is one of its two.
    """
    wanted = [w.form for g in goals for w in g.ways]
    facts = list(dict.fromkeys(forms.facts(wanted, ranges)))
    pairs = list(forms.either(wanted)) if deep else []
    names = _Names(forms)
    asserted = [f"(assert (>= {names.sum(f)} 0))" for f in facts if f.constant is None]
    asserted += [f"(assert (or (= {names.sum(a)} 0) (= {names.sum(b)} 0)))" for a, b in pairs]
    claims = []
    for i, goal in enumerate(goals):
        claims.append(f"  ; {i}: {comment(goal.about)}")
        claims.append(f"  (and (= bad {i}) {names.wrong(goal)})")
    return _text(about, len(goals), len(facts), [*names.declared(), *asserted], claims)


def _text(about: str, goals: int, facts: int, body: Sequence[str], claims: Sequence[str]) -> str:
    head = f"; {comment(about)}: {goals} goals, {facts} facts; unsat means that all of them hold"
    lines = [head, "(set-logic QF_LIA)", "(declare-const bad Int)", *body, "(assert (or", *claims, "  false))"]
    return "\n".join([*lines, "(check-sat)", ""])


class _Names:
    """What products are called in a text, and sums of them."""

    def __init__(self, forms: Forms) -> None:
        self._forms = forms
        self._names: dict[Product, str] = {}

    def __call__(self, product: Product) -> str:
        if product not in self._names:
            self._names[product] = f"v{product[0]}" if len(product) == 1 else f"p{len(self._names)}"
        return self._names[product]

    def sum(self, f: Form) -> str:
        parts = [self._part(p, k) for p, k in f.terms]
        return f"(+ {' '.join(parts)})" if len(parts) > 1 else parts[0] if parts else "0"

    def _part(self, product: Product, factor: int) -> str:
        if not product:
            return literal(factor)
        return self(product) if factor == 1 else f"(* {literal(factor)} {self(product)})"

    def wrong(self, goal: Goal) -> str:
        """That a goal does not hold."""
        if not goal.multiple:
            return " ".join(f"(< {self.sum(w.form)} 0)" for w in goal.ways)
        found = goal.ways[0].form
        if found.divides(goal.multiple):  # the quotient is a witness: nothing has to be divided
            return f"(not (= {self.sum(found)} (* {goal.multiple} {self.sum(found.over(goal.multiple))})))"
        return f"(not (= (mod {self.sum(found)} {goal.multiple}) 0))"

    def declared(self) -> Iterator[str]:
        """Every name, with what it stands for."""
        for product, name in self._names.items():
            yield f"(declare-const {name} Int) ; {comment(self._meaning(product))}"

    def _meaning(self, product: Product) -> str:
        if len(product) > 1:
            return " * ".join(f"v{a}" for a in product)
        match self._forms.atoms[product[0]]:
            case Symbol(var=var):
                return f"the symbol {var.name}"
            case Quotient(dividend=a, divisor=b):
                return f"{self._shown(a)} // {self._shown(b)}"
            case Extreme(which=which, first=a, second=b):
                return f"{which}({self._shown(a)}, {self._shown(b)})"
            case Unknown():
                return "a part that is not looked into"

    def _shown(self, f: Form) -> str:
        text = " + ".join(" * ".join([*([str(k)] if k != 1 or not p else []), *(f"v{a}" for a in p)]) for p, k in f.terms)
        return f"({text or '0'})"


# --- exactly -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scope:
    """The symbols of a plan as terms of z3. Sizes do not wrap: that is a goal of its own."""

    env: Mapping[Var, Term]

    def load(self, node: Load, indices: Sequence[Term]) -> Term:
        raise Crash(f"{show(node)}: a size cannot depend on memory")

    def exact(self, node: Expr) -> bool:
        return True


def exact_text(goal: Goal, symbols: Mapping[Var, str], bounds: Bounds, most: int | None = None) -> str:
    """The text that is satisfiable exactly if a goal is wrong for some values of the symbols, by their names in it.

    `most`: only values up to it.
    """
    terms = Terms()
    env = {v: z3.Int(name) for v, name in symbols.items()}
    memo: dict[int, Term] = {}
    solver = z3.Solver()

    def total(dims: Sequence[Dim]) -> Term:
        return z3.Sum([z3.IntVal(0), *(terms.value(d, Scope(env), memo) if isinstance(d, Expr) else z3.IntVal(d) for d in dims)])

    for way in goal.ways:
        if goal.multiple:
            solver.add(terms.divided(total(way.more), z3.IntVal(goal.multiple))[1] != 0)
        else:
            solver.add(total(way.more) < total(way.less))
    for v, term in env.items():
        low, high = range_of(bounds, v)
        solver.add(term >= low, *(term <= k for k in (high, most) if k is not None))
    solver.add(*terms.known)
    text: str = solver.to_smt2()
    return f"; {comment(goal.about)}; unsat means that it holds\n" + text

"""Goals about a plan with symbolic sizes, and their text (specs/verify.md, "Memory plans").

A goal holds if one of its ways does, for all values of the symbols; a way says that one sum is at least another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import z3

from assay.semantics.integers.polynomials import ZERO, Polynomial
from assay.semantics.integers.ranges import Range
from assay.semantics.memory import BufferInfo, Plan, Pool, range_of
from assay.semantics.scalar import Dim, Expr, Var
from assay.semantics.scalar.smt import Term, Terms, Unwrapped
from assay.verify.memory.definition import Claim, titled
from assay.verify.memory.forms import Forms
from assay.verify.memory.grounds import Grounds, products, text, total
from assay.verify.memory.query import comment


@dataclass(frozen=True)
class Way:
    """The sum of `more` is at least that of `less`: `form` is their difference."""

    form: Polynomial
    more: tuple[Dim, ...]
    less: tuple[Dim, ...]


@dataclass(frozen=True)
class PlanGoal:
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
                total = total.plus(self.forms.of(dim), sign)
        return Way(total, tuple(more), tuple(less))

    def of_pool(self, pool: Pool) -> Iterator[PlanGoal]:
        """The goals about a pool: its size is not negative and within its limit."""
        size = self.plan.sizes.get(pool.name, 0)
        about = f"pool {pool.name}"
        yield PlanGoal("size", f"{about} has no less than 0 bytes", pool.name, (), (self._way([size], []),))
        if pool.limit is not None:
            yield PlanGoal("limit", f"{about} is within its limit", pool.name, (), (self._way([pool.limit], [size]),))

    def of_buffer(self, b: BufferInfo) -> Iterator[PlanGoal]:
        """All that is asked of one buffer but that it ends within its pool."""
        offset = self.plan.places[b.name].offset
        yield self.sized(b)
        yield self._goal("inside", b, "begins at 0 or later", self._way([offset], []))
        if b.offset is not None:
            yield self._goal("by hand", b, "is not before its place", self._way([offset], [b.offset]))
            yield self._goal("by hand", b, "is not after its place", self._way([b.offset], [offset]))
        aligned = self._goal("aligned", b, f"is aligned to {b.alignment}", self._way([offset], []))
        yield replace(aligned, multiple=b.alignment)

    def sized(self, b: BufferInfo) -> PlanGoal:
        """The goal that a buffer's size is not negative."""
        return self._goal("size", b, "has no less than 0 bytes", self._way([b.nbytes], []))

    def inside(self, b: BufferInfo) -> PlanGoal:
        """The goal that a buffer ends within its pool."""
        place = self.plan.places[b.name]
        way = self._way([self.plan.sizes[place.pool]], [place.offset, b.nbytes])
        return self._goal("inside", b, "ends within its pool", way)

    def _goal(self, claim: Claim, b: BufferInfo, about: str, way: Way) -> PlanGoal:
        return PlanGoal(claim, f"buffer {titled(b)} {about}", self.plan.places[b.name].pool, (b.name,), (way,))

    def below(self, a: BufferInfo, b: BufferInfo) -> PlanGoal:
        """That the one ends before the other begins."""
        place, above = self.plan.places[a.name], self.plan.places[b.name]
        way = self._way([above.offset], [place.offset, a.nbytes])
        return PlanGoal("apart", f"buffer {titled(a)} ends below {titled(b)}", place.pool, (a.name, b.name), (way,))

    def apart(self, a: BufferInfo, b: BufferInfo) -> PlanGoal:
        """That two share no byte: either lies below the other, or has no bytes."""
        ways = (
            *self.below(a, b).ways,
            *self.below(b, a).ways,
            self._way([], [a.nbytes]),
            self._way([], [b.nbytes]),
        )
        pool = self.plan.places[a.name].pool
        return PlanGoal("apart", f"buffers {titled(a)} and {titled(b)} share no byte", pool, (a.name, b.name), ways)


# --- as linear text --------------------------------------------------------------------------------------------------


def local_text(
    goals: Sequence[tuple[PlanGoal, Sequence[Polynomial]]], forms: Forms, about: str, ranges: list[Range] | None = None
) -> str:
    """The text that asks whether each goal follows from the facts that stand with it, and each fact from definitions.

    `bad` is the number of a goal that does not. A fact that an earlier goal of the text states is no question again.
    """
    grounds = Grounds(forms, forms.ranges if ranges is None else ranges)
    facts = {f: i for i, f in enumerate(dict.fromkeys(f for _, found in goals for f in found))}
    shown: set[Polynomial] = set()
    open_facts: dict[Polynomial, None] = {}
    claims = []
    for i, (goal, found) in enumerate(goals):
        claims.append(f"  ; {i}: {comment(goal.about)}")
        beside = "".join(f" f{facts[f]}" for f in dict.fromkeys(found))
        claims.append(f"  (and (= bad {i}) {_wrong(goal)}{beside})")
        open_facts |= dict.fromkeys(f for f in found if f not in shown)
        if len(goal.ways) == 1 and not goal.multiple:
            shown.add(goal.ways[0].form)
    defined = [f"(define-fun f{i} () Bool (>= {total(f)} 0))" for f, i in facts.items()]
    seen = products([*facts, *(w.form for g, _ in goals for w in g.ways)])
    asked = [*grounds.declared(seen), "(declare-const bad Int)", *defined, "(assert (or", *claims, "  false))"]
    rest = grounds.sections(open_facts)
    return text(about, f"{len(goals)} goals", f"{len(facts)} facts", grounds.head(), ["\n".join(asked), *rest])


def linear_text(
    goals: Sequence[PlanGoal],
    forms: Forms,
    about: str,
    ranges: list[Range] | None = None,
    *,
    deep: bool = False,
    alone: bool = False,
) -> str:
    """The text that asks whether the linear facts allow some goal to be wrong, `bad` is its number, and of each fact
    whether it follows from definitions. `alone`: without the latter, to learn which goals follow.

    Satisfiable does not mean wrong, for of products only some facts are known. `deep`: a maximum is one of its two.
    """
    grounds = Grounds(forms, forms.ranges if ranges is None else ranges)
    wanted = [w.form for g in goals for w in g.ways]
    facts = [f for f in dict.fromkeys(forms.facts(wanted, ranges)) if f.terms]
    pairs = list(dict.fromkeys(forms.either(wanted))) if deep else []
    asserted = [f"(assert (>= {total(f)} 0))" for f in facts]
    asserted += [f"(assert (or (= {total(a)} 0) (= {total(b)} 0)))" for a, b in pairs]
    claims = []
    for i, goal in enumerate(goals):
        claims.append(f"  ; {i}: {comment(goal.about)}")
        claims.append(f"  (and (= bad {i}) {_wrong(goal)})")
    seen = products([*facts, *wanted, *(f for pair in pairs for f in pair)])
    asked = [*grounds.declared(seen), "(declare-const bad Int)", *asserted, "(assert (or", *claims, "  false))"]
    rest = [] if alone else grounds.sections(facts, pairs)
    return text(about, f"{len(goals)} goals", f"{len(facts)} facts", grounds.head(), ["\n".join(asked), *rest])


def forms_text(forms: Forms) -> str:
    """The text that asks whether each part of each size and offset is the form that stands for it in the other
    texts."""
    grounds = Grounds(forms, forms.ranges)
    parts = list(forms.parts())
    return text(
        "sizes and offsets as forms",
        f"{len(parts)} parts",
        f"{len(forms.atoms)} atoms",
        grounds.head(),
        [*grounds.meanings(parts)],
    )


def _wrong(goal: PlanGoal) -> str:
    """That a goal does not hold."""
    if not goal.multiple:
        return " ".join(f"(< {total(w.form)} 0)" for w in goal.ways)
    found = goal.ways[0].form
    if found.is_multiple(goal.multiple):  # the quotient is a witness: nothing has to be divided
        return f"(not (= {total(found)} (* {goal.multiple} {total(found.divided(goal.multiple)[0])})))"
    return f"(not (= (mod {total(found)} {goal.multiple}) 0))"


# --- exactly
# -----------------------------------------------------------------------------------------------------------


def exact_text(goal: PlanGoal, symbols: Mapping[Var, str], forms: Forms, most: int | None = None) -> str:
    """The text that is satisfiable exactly if a goal is wrong for some values of the symbols, by their names in it.

    `most`: only values up to it.
    """
    terms = Terms()
    env = {v: z3.Int(name) for v, name in symbols.items()}
    memo: dict[int, Term] = {}
    solver = z3.Solver()

    def sum_of(dims: Sequence[Dim]) -> Term:
        return z3.Sum(
            [
                z3.IntVal(0),
                *(terms.value(d, Unwrapped(env), memo) if isinstance(d, Expr) else z3.IntVal(d) for d in dims),
            ]
        )

    for way in goal.ways:
        if goal.multiple:
            solver.add(terms.divided(sum_of(way.more), z3.IntVal(goal.multiple))[1] != 0)
        else:
            solver.add(sum_of(way.more) < sum_of(way.less))
    for v, term in env.items():
        low, high = range_of(forms.bounds, v)
        solver.add(term >= low, *(term <= k for k in (high, most) if k is not None))
    solver.add(*(sum_of([dim]) >= 0 for dim in forms.given.values()))
    solver.add(*terms.known)
    made: str = solver.to_smt2()
    return f"; {comment(goal.about)}; unsat means that it holds\n" + made

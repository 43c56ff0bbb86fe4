"""What is known at a place of a program, and what follows from it, by z3 (specs/verify.md, "For all sizes").

Indices and sizes are unbounded integers: the accesses of the program are proved to stay in their dtype first. Whole
numbers that are data wrap as their dtype does. Floats are opaque.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import z3

from assay.semantics.dtypes import BOOL, INT64
from assay.semantics.indexed.fold import Accumulator, Fold, notation
from assay.semantics.scalar import Const, Expr, Interner, Load, Var, apply, const
from assay.semantics.scalar.expression import Buffer
from assay.semantics.scalar.smt import Term, Terms, sort
from assay.semantics.walk import Worklist, post_order
from assay.verify.all_sizes.linear_facts import LinearFacts
from assay.verify.proof_texts import keeps_questions, never_hold

Facts: TypeAlias = tuple[Expr, ...]

RLIMIT = 2_000_000
"""z3's resource limit for one query: deterministic. Reaching it is "not shown"."""


@dataclass(frozen=True, eq=False, repr=False)
class Unwritten(Expr):
    """The element of memory that nothing has written."""


@dataclass(frozen=True, eq=False, repr=False)
class CarriedElement(Expr):
    """The element of a buffer as it is when an iteration of `loop` begins."""

    parts = "*indices"
    buffer: Buffer
    indices: tuple[Expr, ...]
    loop: object


OPAQUE = (Fold, Unwritten, CarriedElement)
DATA = (Load, Accumulator, *OPAQUE)


def is_data(expr: Expr) -> bool:
    """Whether an expression hangs on elements of memory."""
    return any(isinstance(n, DATA) for n in post_order(expr))


def is_index_term(expr: Expr) -> bool:
    """Whether an expression is a whole number or a truth about sizes and indices alone."""
    whole = expr.dtype.is_integer or expr.dtype is BOOL
    return whole and not is_data(expr) and not any(n.dtype.is_float for n in post_order(expr))


@dataclass(eq=False)
class _Scope:
    """One query: each variable is an unknown, each element an unknown function of its place."""

    terms: Terms
    env: dict[Var, Term] = field(default_factory=dict)
    plain: dict[int, bool] = field(default_factory=dict)
    buffers: dict[Buffer, str] = field(default_factory=dict)

    def load(self, node: Load, indices: Sequence[Term]) -> Term:
        """An element of a buffer that is only read."""
        name = self.buffers.setdefault(node.buffer, f"{node.buffer.name} {len(self.buffers)}")
        return self.terms.function(f"element of {name}", indices, node.dtype)

    def exact(self, node: Expr) -> bool:
        """Whether a step is one of sizes and indices, which are unbounded."""
        return node.dtype is INT64 and self.plain[id(node)]


@dataclass(eq=False)
class Space:
    """Decides what follows from facts; what was asked before is remembered."""

    known: dict[tuple[object, ...], bool] = field(default_factory=dict)
    number: Interner = field(default_factory=Interner)
    stand_ins: dict[int, tuple[Expr, Var]] = field(default_factory=dict)
    """For what z3 is told nothing of, a variable; the same for one object."""
    unknown: set[Expr] = field(default_factory=set)
    """These variables."""
    queries: int = 0

    def implies(self, facts: Sequence[Expr], claim: Expr) -> bool:
        """Whether a claim holds wherever all facts do. Also False where z3 does not know."""
        claim = self._opaque(claim)
        if isinstance(claim, Const):
            if claim.value:
                return True
        facts = [self._opaque(f) for f in facts]
        key = (*sorted({self.number(f) for f in facts}), "|", self.number(claim))
        if key not in self.known:
            self.known[key] = (not keeps_questions() and self._is_linear(facts, claim)) or self._decided(facts, claim)
        return self.known[key]

    def _is_linear(self, facts: Sequence[Expr], claim: Expr) -> bool:
        """Whether a claim follows by sums alone."""
        known = LinearFacts(self.number, lambda v: isinstance(v, Accumulator) or v in self.unknown)
        known.take(facts)
        return known.follows(claim)

    def never(self, facts: Sequence[Expr]) -> bool:
        """Whether facts exclude one another."""
        return self.implies(facts, const(False, BOOL))

    def equal(self, facts: Sequence[Expr], a: Expr, b: Expr) -> bool:
        """Whether two whole numbers are equal wherever the facts hold."""
        if a is b or self.number(self._opaque(a)) == self.number(self._opaque(b)):
            return True
        return self.implies(facts, apply("eq", a, b))

    def _opaque(self, expr: Expr) -> Expr:
        """The expression with a variable for each part that z3 is told nothing of."""
        if not any(isinstance(n, OPAQUE) for n in post_order(expr)):
            return expr

        def change(node: Expr) -> Expr:
            if not isinstance(node, OPAQUE):
                return node
            if id(node) not in self.stand_ins:
                self.stand_ins[id(node)] = node, Var("opaque", node.dtype)
                self.unknown.add(self.stand_ins[id(node)][1])
            return self.stand_ins[id(node)][1]

        parts = post_order(expr, lambda n: () if isinstance(n, OPAQUE) else n.children)
        made: dict[int, Expr] = {}
        for node in parts:
            made[id(node)] = (
                change(node) if isinstance(node, OPAQUE) else node.with_children([made[id(c)] for c in node.children])
            )
        return made[id(expr)]

    def _decided(self, facts: Sequence[Expr], claim: Expr) -> bool:
        self.queries += 1
        scope = _Scope(Terms())
        memo: dict[int, Term] = {}
        exprs = [*facts, claim]
        for e in exprs:
            for n in post_order(e):
                data = isinstance(n, DATA) or n in self.unknown
                scope.plain[id(n)] = not data and all(scope.plain[id(c)] for c in n.children)
                if isinstance(n, Var) and n not in scope.env:
                    scope.env[n] = z3.Const(f"{n.name} {len(scope.env)}", sort(n.dtype))
        terms = [scope.terms.value(e, scope, memo) for e in exprs]
        formulas = [*scope.terms.known, *terms[:-1], z3.Not(terms[-1])]
        return never_hold(notation(claim) if keeps_questions() else "", formulas, RLIMIT)


def conjunction(parts: Sequence[Expr]) -> Expr:
    """That all parts hold."""
    made: Expr = const(True, BOOL)
    for k, p in enumerate(parts):
        made = p if k == 0 else apply("and", made, p)
    return made


def in_box(extents: Sequence[Expr], at: Sequence[Expr]) -> list[Expr]:
    """That a place lies in a box."""
    found: list[Expr] = []
    for n, i in zip(extents, at, strict=True):
        found += [apply("ge", i, 0), apply("lt", i, n)]
    return found


def standing(
    exprs: Sequence[Expr], facts: Facts, parts: Callable[[Expr], Sequence[Expr]] = lambda n: n.children
) -> Iterator[tuple[Expr, Facts]]:
    """Each part of expressions with what is known wherever it stands: within the step of a fold, that its place is in
    the box."""
    boxes: dict[int, Facts] = {}

    def place(item: tuple[Expr, Facts]) -> tuple[int, ...]:
        return id(item[0]), *map(id, item[1])

    work = Worklist[tuple[Expr, Facts]]([(e, facts) for e in exprs], key=place)
    for node, known in work:
        yield node, known
        if isinstance(node, Fold):
            box = boxes.setdefault(id(node), tuple(node.inside()))
            work.add([*((e, known) for e in (*node.extents, node.init)), (node.step, (*known, *box))])
        else:
            work.add((c, known) for c in parts(node))

"""Whether two accesses in different iterations of a loop touch one element, by z3 (specs/interp.md, "Vector").

For what affine forms cannot tell: products of variables, quotients of sums, guards, minima. The question is asked at
the sizes of the run, with so small a limit that no compilation waits for it. No answer: not shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import z3

from assay.interp.vector.blocks import Bind, Blocks, Branch, Loop, Place, Step
from assay.semantics.integers.affine import Ranges
from assay.semantics.integers.ranges import EVERYTHING, Range, dtype_range, fits_dtype, reach
from assay.semantics.scalar import Apply, Cast, Const, Expr, Load, Var
from assay.semantics.scalar.smt import Term, Terms, inside
from assay.semantics.tensor import Buffer
from assay.semantics.walk import post_order

RLIMIT = 200_000
"""z3's resource limit for one question: some hundredths of a second, and the same on every machine."""
MOST_KEPT = 4_096
"""So many answers are remembered."""

_answers: dict[tuple[int, ...], tuple[bool, Sequence[Term]]] = {}
"""By the numbers that z3 gives to facts, which are theirs as long as they are kept: equal facts have one number."""


def never_meet(blocks: Blocks, a: Place, b: Place, loop: Loop) -> bool:
    """Whether it is shown that accesses at `a` and `b` in different iterations of one run of `loop` have other indices.

    A place may be given twice: then two iterations of it are meant.
    """
    around, indices = a
    depth = next(k for k, s in enumerate(around) if s.item is loop)
    query = _Query(blocks)
    shared = _Side(query, {})
    for s in around[:depth]:
        shared.enter(s)
    sides = []
    for steps, _ in (a, b):
        side = _Side(query, dict(shared.env))
        for s in steps[depth:]:
            side.enter(s)
        sides.append(side)
    first, second = (side.env[loop.var] for side in sides)
    query.facts.append(first < second if a is b else first != second)
    for i, j in zip(indices, b[1], strict=True):
        query.facts.append(sides[0].value(i) == sides[1].value(j))
    return _unsatisfiable([*query.terms.known, *query.facts])


def _unsatisfiable(facts: Sequence[Term]) -> bool:
    key = tuple(f.get_id() for f in facts)
    if key not in _answers:
        if len(_answers) >= MOST_KEPT:
            _answers.clear()
        solver = z3.Solver()
        solver.set("rlimit", RLIMIT)
        solver.add(*facts)
        _answers[key] = solver.check() == z3.unsat, facts
    return _answers[key][0]


@dataclass(eq=False)
class _Query:
    """What the two iterations that are compared share."""

    blocks: Blocks
    terms: Terms = field(default_factory=Terms)
    facts: list[Term] = field(default_factory=list)

    def __post_init__(self) -> None:
        fixed = (*self.blocks.inputs, *self.blocks.constants)
        self.fixed: dict[Buffer, str] = {b: f"element {k}" for k, b in enumerate(fixed)}


@dataclass(eq=False)
class _Side:
    """One iteration: what its variables are."""

    query: _Query
    env: dict[Var, Term]
    exactly: set[int] = field(default_factory=set)

    def enter(self, step: Step) -> None:
        match step.item:
            case Loop(var=var, extent=extent):
                self.env[var] = i = self.query.terms.fresh("i")
                self.query.facts += [0 <= i, i < self.value(extent)]
            case Bind(var=var, value=value):
                self.env[var] = self.value(value)
            case Branch(condition=condition):
                holds = self.value(condition)
                self.query.facts.append(holds if step.holds else z3.Not(holds))

    def value(self, expr: Expr) -> Term:
        """The term of an expression where it stands. What it loads may be another number at any other place."""
        self.exactly = _exact(expr, self.query.blocks.ranges)
        return self.query.terms.value(expr, self, {})

    def load(self, node: Load, indices: Sequence[Term]) -> Term:
        """An element of a buffer without writes is a function of its index; any other is unknown."""
        terms = self.query.terms
        if node.buffer in self.query.fixed:
            return terms.function(self.query.fixed[node.buffer], indices, node.dtype)
        unknown = terms.fresh("loaded", node.dtype)
        if node.dtype.is_integer:
            self.query.facts.append(inside(unknown, node.dtype))
        return unknown

    def exact(self, node: Expr) -> bool:
        return id(node) in self.exactly


def _exact(expr: Expr, ranges: Ranges) -> set[int]:
    """The steps of an expression that cannot leave their dtype, by the ranges of what they work on."""
    known: dict[int, Range] = {}
    exact: set[int] = set()
    for node in post_order(expr):
        if not node.dtype.is_integer:
            known[id(node)] = EVERYTHING
            continue
        found = _range(node, [known[id(c)] for c in node.children], ranges)
        if fits_dtype(found, node.dtype):
            exact.add(id(node))
        known[id(node)] = found if fits_dtype(found, node.dtype) else dtype_range(node.dtype)
    return exact


def _range(node: Expr, args: Sequence[Range], ranges: Ranges) -> Range:
    """Where a step that is not wrapped lies."""
    match node:
        case Const():
            return int(node.value), int(node.value)
        case Var():
            return ranges.get(node, EVERYTHING)
        case Cast():
            return args[0]
        case Apply():
            return reach(node.op, args)
        case _:
            return EVERYTHING

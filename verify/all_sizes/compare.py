"""Whether two terms are equal bit for bit, for all sizes and data (specs/verify.md, "For all sizes").

Whole numbers and truths of sizes and indices are compared by z3, all else by structure: one operation on equal
operands, one element, one fold over one box in one order. A choice by sizes or indices is gone through by its cases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from assay.semantics.indexed.fold import Accumulator, Fold, notation
from assay.semantics.scalar import Apply, Cast, Choice, Const, Expr, Load, Var, apply, const, operation, substitute
from assay.semantics.walk import Worklist, post_order
from assay.verify.all_sizes.pieces import put_in
from assay.verify.all_sizes.space import CarriedElement, Facts, Space, Unwritten, is_index_term

MOST = 4_000
"""Pairs of terms that are compared for one pair."""


@dataclass(frozen=True, eq=False)
class _Pair:
    left: Expr
    right: Expr
    facts: Facts


@dataclass(eq=False)
class TermComparison:
    """Compares terms. With `strict` no choice is gone through: what may trap is evaluated in the same places then."""

    space: Space
    strict: bool = False
    kinds: dict[int, tuple[Expr, str]] = field(default_factory=dict)

    def difference(self, left: Expr, right: Expr, facts: Facts) -> str:
        """Where two terms may differ; "" where they are equal wherever the facts hold."""
        work = Worklist([_Pair(left, right, facts)])
        for count, pair in enumerate(work):
            if count >= MOST:
                return f"more than {MOST} parts are not compared"
            parts = self.parts(pair)
            if parts is None and not self.space.never(pair.facts):
                return f"{_told(pair.left)} instead of {_told(pair.right)}"
            work.add(parts or ())
        return ""

    def parts(self, pair: _Pair) -> Sequence[_Pair] | None:
        """The pairs that have to be equal for this one to be; None where it is not seen to be."""
        a, b, facts = pair.left, pair.right, pair.facts
        if a is b and not isinstance(a, (Unwritten, CarriedElement)):
            return [] if not any(isinstance(n, (Unwritten, CarriedElement)) for n in post_order(a)) else None
        if a.dtype is not b.dtype:
            return None
        if is_index_term(a) and is_index_term(b) and self.space.equal(facts, a, b):
            return []
        if isinstance(a, Fold) or isinstance(b, Fold):
            plain = _Pair(self.plainer(a, facts), self.plainer(b, facts), facts)
            if plain.left is not a or plain.right is not b:
                return [plain]
        split = None if self.strict else self.split(pair)
        return self.alike(pair) if split is None else split

    def split(self, pair: _Pair) -> Sequence[_Pair] | None:
        """The cases of a choice by sizes and indices; None where there is none."""
        for first, second, swap in ((pair.left, pair.right, False), (pair.right, pair.left, True)):
            found = _choice(first)
            if found is None or not is_index_term(found[0]):
                continue
            test, then, otherwise = found
            cases = []
            for holds, side in ((test, then), (apply("not", test), otherwise)):
                here = (*pair.facts, holds)
                if not self.space.never(here):
                    cases.append(_Pair(second, side, here) if swap else _Pair(side, second, here))
            return cases
        return None

    def alike(self, pair: _Pair) -> Sequence[_Pair] | None:
        """The operands, where both are one operation."""
        a, b, facts = pair.left, pair.right, pair.facts
        match a, b:
            case Const(), Const():
                return [] if a.value.tobytes() == b.value.tobytes() else None
            case Load(), Load() if a.buffer is b.buffer:
                return [_Pair(x, y, facts) for x, y in zip(a.indices, b.indices, strict=True)]
            case Cast(), Cast() if a.arg.dtype is b.arg.dtype:
                return [_Pair(a.arg, b.arg, facts)]
            case Apply(), Apply() if a.op == b.op:
                return [_Pair(x, y, facts) for x, y in zip(a.args, self.ordered(a, b), strict=True)]
            case Choice(), Choice():
                return [_Pair(x, y, facts) for x, y in zip(a.children, b.children, strict=True)]
            case Fold(), Fold() if len(a.vars) == len(b.vars):
                return self.folds(a, b, facts)
            case _:
                return None

    def plainer(self, expr: Expr, facts: Facts) -> Expr:
        """A fold over no place as what it begins with, and without axes of size 1."""
        if not isinstance(expr, Fold):
            return expr
        if any(self.space.implies(facts, apply("le", n, 0)) for n in expr.extents):
            return expr.init
        one = [self.space.equal(facts, n, const(1)) for n in expr.extents]
        if not any(one):
            return expr
        step = substitute(expr.step, {v: 0 for v, alone in zip(expr.vars, one, strict=True) if alone})
        left = [(v, n) for v, n, alone in zip(expr.vars, expr.extents, one, strict=True) if not alone]
        if not left:
            return put_in(self.space, step, {id(expr.acc): expr.init}, facts)
        variables, extents = zip(*left, strict=True)
        return Fold(expr.dtype, variables, extents, expr.acc, expr.init, step)

    def folds(self, a: Fold, b: Fold, facts: Facts) -> Sequence[_Pair]:
        """One box, one start, and one step in it."""
        new = tuple(Var(v.name, v.dtype) for v in a.vars)
        acc = Accumulator(a.dtype)
        steps = [substitute(f.step, {**dict(zip(f.vars, new, strict=True)), f.acc: acc}) for f in (a, b)]
        inside = [t for v, n in zip(new, a.extents, strict=True) for t in (apply("ge", v, 0), apply("lt", v, n))]
        extents = [_Pair(x, y, facts) for x, y in zip(a.extents, b.extents, strict=True)]
        return [*extents, _Pair(a.init, b.init, facts), _Pair(steps[0], steps[1], (*facts, *inside))]

    def ordered(self, a: Apply, b: Apply) -> Sequence[Expr]:
        """The operands of `b`, exchanged where that is allowed and they look like those of `a` then."""
        if len(b.args) != 2 or not operation(b.op).has("commutes"):
            return b.args
        own, others = [self.kind(x) for x in a.args], [self.kind(x) for x in b.args]
        return b.args[::-1] if own != others and own == others[::-1] else b.args

    def kind(self, expr: Expr) -> str:
        """What an expression is made of, whatever the indices: a hint alone."""
        for node in post_order(expr, lambda n: () if isinstance(n, Load) else n.children):
            if id(node) not in self.kinds:
                self.kinds[id(node)] = node, self._kind(node)
        return self.kinds[id(expr)][1]

    def _kind(self, node: Expr) -> str:
        if is_index_term(node):
            return "place"
        match node:
            case Apply():
                head = node.op
            case Load():
                head = node.buffer.name
            case Const():
                head = node.value.tobytes().hex()
            case _:
                head = type(node).__name__
        inner = () if isinstance(node, Load) else node.children
        return str(hash((head, node.dtype.name, *(self.kinds[id(c)][1] for c in inner))))


def _choice(expr: Expr) -> tuple[Expr, Expr, Expr] | None:
    match expr:
        case Choice():
            return expr.condition, expr.then, expr.otherwise
        case Apply(op="select", args=(test, then, otherwise)):
            return test, then, otherwise
    return None


def _told(expr: Expr) -> str:
    if isinstance(expr, Unwritten):
        return "what nothing has written"
    if any(isinstance(n, (Unwritten, CarriedElement)) for n in post_order(expr)):
        return "what is not told"
    text = notation(expr)
    return text if len(text) <= 120 else text[:117] + "..."

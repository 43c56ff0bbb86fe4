"""What the assertions of a planned program say of sizes at each of its steps (specs/semantics.md, "Memory planning").

facts = facts_at(program.steps)     # for each item the equations that hold when a run comes to it
facts[i].same_size(a, b)            # whether two shapes have equally many elements there
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from assay.semantics.errors import Invalid
from assay.semantics.integers.polynomials import ZERO, Polynomial, Polynomials, without_multiples
from assay.semantics.ops.sizes import product, same_size
from assay.semantics.scalar import Const, Dim, Expr, Var, const, provably_equal, simplify, variables
from assay.semantics.scalar.structure import Interner
from assay.semantics.steps import Assertion, Branch, Item, Loop, Measure, flow
from assay.semantics.types import Type, flatten
from assay.semantics.walk import post_order


@dataclass(frozen=True)
class SizeFacts:
    """Equations between dims."""

    equations: tuple[tuple[Dim, Dim], ...] = ()
    rules: tuple[tuple[Dim, Dim], ...] = ()
    """What may stand for what: of each equation, with the others said before in it, the plainer side for the other. No
    rule applies to what a rule gives."""

    def and_(self, pairs: Sequence[tuple[Dim, Dim]]) -> SizeFacts:
        """These facts and others."""
        new = tuple((a, b) for a, b in pairs if not provably_equal(a, b))
        rules = list(self.rules)
        for pair in new:
            a, b = (_rewritten(d, rules) for d in pair)
            if not provably_equal(a, b):
                rule = _ordered(a, b)
                rules = [*((left, _rewritten(right, [rule])) for left, right in rules), rule]
        return SizeFacts(self.equations + new, tuple(rules)) if new else self

    def but(self, lost: Collection[Var]) -> SizeFacts:
        """These facts without those about some symbols."""
        kept = tuple(e for e in self.equations if not any(v in lost for d in e for v in variables(d)))
        return self if len(kept) == len(self.equations) else SizeFacts().and_(kept)

    def rewritten(self, dim: Dim) -> Dim:
        """A dim with the plainer side of each equation for the other: for a part as it is, or with its own parts so."""
        return _rewritten(dim, self.rules)

    def equal(self, a: Dim, b: Dim) -> bool:
        """Whether two dims are equal, as far as is shown."""
        return provably_equal(a, b) or provably_equal(self.rewritten(a), self.rewritten(b))

    def same_size(self, a: Sequence[Dim], b: Sequence[Dim]) -> bool:
        """Whether two shapes have equally many elements, as far as is shown: by the equations as rules for dims, then
        for products of dims."""
        if same_size(a, b):
            return True
        if not self.equations:
            return False
        ones, others = [self.rewritten(d) for d in a], [self.rewritten(d) for d in b]
        return same_size(ones, others) or self._difference(ones, others) == ZERO

    def _difference(self, a: Sequence[Dim], b: Sequence[Dim]) -> Polynomial:
        """How many elements more the one shape has, after a division by each equation in turn."""
        sums = Polynomials({})
        left = sums.of(product(a)) - sums.of(product(b))
        for old, new in self.rules:
            left = without_multiples(left, sums.of(_expr(old)) - sums.of(_expr(new)))
        return left


def _rewritten(dim: Dim, rules: Sequence[tuple[Dim, Dim]]) -> Dim:
    """A dim with the second side of each rule for the first."""
    if not isinstance(dim, Expr) or not rules:
        return dim
    number = Interner()
    plainer: dict[int, Expr] = {}
    for old, new in rules:
        plainer.setdefault(number(simplify(_expr(old))), _expr(new))
    done: dict[int, Expr] = {}
    whole = _expr(simplify(dim))
    for node in post_order(whole):
        made = node.with_children(tuple(done[id(c)] for c in node.children)) if node.children else node
        done[id(node)] = plainer.get(number(node), plainer.get(number(made), made))
    found = simplify(done[id(whole)])
    return int(found.value) if isinstance(found, Const) else found


def cast_sizes(found: Type, wanted: Type) -> tuple[tuple[Dim, Dim], ...] | None:
    """The pairs of dims that a cast has to find equal, those left out that are equal at all sizes; None where it is not
    from tensors to tensors of the same ranks and dtypes."""
    try:
        ones, others = flatten(found), flatten(wanted)
    except Invalid:
        return None
    if [(len(t.shape), t.dtype) for t in ones] != [(len(t.shape), t.dtype) for t in others]:
        return None
    pairs = (p for a, b in zip(ones, others, strict=True) for p in zip(a.shape, b.shape, strict=True))
    return tuple((a, b) for a, b in pairs if not provably_equal(a, b))


def _expr(dim: Dim) -> Expr:
    return dim if isinstance(dim, Expr) else const(dim)


def _ordered(a: Dim, b: Dim) -> tuple[Dim, Dim]:
    """The dim with more parts first; of equal ones, any."""
    size = [len(list(post_order(_expr(d)))) for d in (a, b)]
    return (a, b) if size[0] >= size[1] else (b, a)


def facts_at(steps: Sequence[Item]) -> list[SizeFacts]:
    """For each item what has been asserted on every way to it, and what measured sizes were set to. What an arm asserts
    holds in that arm; of a size that gets another value nothing that was said before holds."""
    found = [SizeFacts()] * len(steps)
    around = [SizeFacts()]
    for what, i in flow(steps):
        item = steps[i]
        match what, item:
            case "step", Assertion(sizes=sizes):
                found[i] = around[-1]
                around[-1] = around[-1].and_(sizes)
            case "step", Measure(symbols=own, values=values):
                found[i] = around[-1]
                told = [(v, d) for v, d in zip(own, values, strict=False) if not {*own} & {*variables(d)}]
                around[-1] = around[-1].but(own).and_(told)
            case "if", Branch(end=end):
                found[i] = around[-1]
                around[-1:] = [around[-1].but(_set(steps[i + 1 : end])), around[-1]]
            case "else", Branch():
                around[-1] = found[i]
            case "end", _:
                around.pop()
            case "loop", Loop(end=end):
                found[i] = around[-1] = around[-1].but(_set(steps[i + 1 : end]))
            case (("step" | "continue"), _):
                found[i] = around[-1]
    return found


def _set(steps: Sequence[Item]) -> set[Var]:
    """The sizes that get values among some items."""
    return {v for s in steps if isinstance(s, Measure) for v in s.symbols}

"""What an engine can do: a table of patterns, and where they stand in a let chain (row R29; specs/lower.md,
"Engines")."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from assay.lower.chains import Chain
from assay.lower.rewriting.pattern import Found, Pattern, is_leaf, match
from assay.semantics.graph import Call, Constant, Expr, Tuple, TupleGetItem, Var
from assay.semantics.graph.effects import acts, can_fail
from assay.semantics.graph.sizes import sizes_in
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.scalar import Var as Symbol
from assay.semantics.types import TensorType, symbols


@dataclass(frozen=True, eq=False)
class Composite:
    """One thing that an engine does: a name, what it looks like in a program, and which of these it `accepts`."""

    name: str
    pattern: Pattern
    accepts: Callable[[Found, Expr], bool] = lambda found, at: True


@dataclass(frozen=True, eq=False)
class CompositeMatch:
    """Bindings of a chain that are one composite: their places in order, the last one is its result."""

    composite: Composite
    members: tuple[int, ...]

    @property
    def root(self) -> int:
        """The place of the binding that is the composite's result."""
        return self.members[-1]


def find(
    chain: Chain, escaping: Callable[[Var], bool], table: Sequence[Composite], module: Module
) -> list[CompositeMatch]:
    """The composites in a chain, in its order; an earlier row of the table wins, then the later binding.

    No two share a binding. What a composite computes on the way to its result is used nowhere else; nothing in it acts
    or may trap.
    """
    place = {n.var: i for i, n in enumerate(chain.lets)}
    users: list[list[int]] = [[] for _ in chain.lets]
    for i, n in enumerate(chain.lets):
        for child in n.value.children:
            if isinstance(child, Var) and child in place:
                users[place[child]].append(i)
    taken: dict[int, CompositeMatch] = {}

    def lets(v: Var) -> Expr | None:
        return chain.lets[place[v]].value if v in place else None

    for composite in table:
        for root in reversed(range(len(chain.lets))):
            value = chain.lets[root].value
            if root in taken or not _movable(value, module):
                continue
            found = match(composite.pattern, value, lets)
            if found is None or not composite.accepts(found, value):
                continue
            members = {place[e] for p, e in found.items() if not is_leaf(p) and isinstance(e, Var) and e in place} | {
                root
            }
            inner = members - {root}
            if any(m in taken or not _movable(chain.lets[m].value, module) for m in members):
                continue
            if any(escaping(chain.lets[m].var) or not members.issuperset(users[m]) for m in inner):
                continue
            made = CompositeMatch(composite, tuple(sorted(members)))
            if _closed_in_sizes(chain, made):
                taken.update((m, made) for m in members)
    return sorted(set(taken.values()), key=lambda m: m.root)


def operands(chain: Chain, members: Iterable[int]) -> list[Var]:
    """What bindings take from elsewhere, each once, in order."""
    own = {chain.lets[m].var for m in members}
    read = (c for m in members for c in chain.lets[m].value.children)
    return list(dict.fromkeys(c for c in read if isinstance(c, Var) and c not in own))


def _movable(value: Expr, module: Module) -> bool:
    if not isinstance(value, Call | Tuple | TupleGetItem) or acts(value) or can_fail(value, module):
        return False
    named = all(isinstance(c, (Var, Constant)) or not c.children for c in value.children)
    return named and (not isinstance(value, Call) or isinstance(value.op, Operator))


def _closed_in_sizes(chain: Chain, made: CompositeMatch) -> bool:
    """Whether every size that a composite speaks of is a whole dim of something that it takes."""
    taken = [v.type for v in operands(chain, made.members)]
    told = {d for t in taken if isinstance(t, TensorType) for d in t.shape if isinstance(d, Symbol)}
    values = [chain.lets[m].value for m in made.members]
    used = {s for t in (*taken, *(v.type for v in values)) for s in symbols(t)}
    used.update(s for v in values if isinstance(v, Call) for s in sizes_in(v.attrs.values()))
    return used <= told

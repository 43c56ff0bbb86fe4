"""Stores to places that are data, read backwards (specs/verify.md, "For all sizes").

A nest of loops around one store, with nothing beside it, stores one element after another. Whatever the places are, an
element is what the iterations made of it that stored there: a fold over all of them, each of which takes its place
where that is the element, and else leaves what there was.
"""

from __future__ import annotations

from dataclasses import dataclass

from assay.semantics import tensor
from assay.semantics.indexed.fold import Accumulator, Fold
from assay.semantics.scalar import Expr, Interner, Load, Number, Var, apply, as_expr, choice, substitute
from assay.semantics.scalar.expression import Buffer
from assay.semantics.walk import post_order
from assay.verify.all_sizes.pieces import Contents, NotFollowed, element_of, put_in, require_written
from assay.verify.all_sizes.space import Facts, Space, conjunction, in_box


@dataclass(frozen=True, eq=False)
class ScatteredUpdate:
    """At each place of a box, one after another in row-major order: the element at `indices` becomes `value`, in which
    `acc` stands for what that element was."""

    vars: tuple[Var, ...]
    extents: tuple[Expr, ...]
    indices: tuple[Expr, ...]
    acc: Accumulator
    value: Expr

    def contents(self, space: Space, old: Contents, buffer: Buffer, facts: Facts) -> Contents:
        """What a buffer that held `old` holds behind it. NotFollowed where that is not seen."""
        if any(v in set(post_order(e)) for e in self.extents for v in self.vars):
            raise NotFollowed("how often a loop runs hangs on a loop around it, and it stores to places that are data")
        made = Contents((), lambda at, known: self.element(space, element_of(space, old, at, known), at, known))
        if any(n is self.acc for n in post_order(self.value)):  # an element is read, whichever it is
            place = tuple(Var(f"p{k}") for k in range(len(buffer.shape)))
            inside = (*facts, *in_box([as_expr(d) for d in buffer.shape], place))
            require_written(space, element_of(space, old, place, inside), inside)
        return made

    def element(self, space: Space, before: Expr, at: tuple[Expr, ...], facts: Facts) -> Expr:
        """An element that was `before`."""
        here = conjunction([apply("eq", i, a) for i, a in zip(self.indices, at, strict=True)])
        if not self.vars:
            return choice(here, put_in(space, self.value, {id(self.acc): before}, facts), before)
        new: dict[Var, Number] = {v: Var(v.name, v.dtype) for v in self.vars}
        acc = Accumulator(self.acc.dtype)
        step = choice(substitute(here, new), substitute(self.value, {**new, self.acc: acc}), acc)
        names = tuple(v for v in new.values() if isinstance(v, Var))
        return Fold(before.dtype, names, self.extents, acc, before, step)


def scattering_nest(stmt: tensor.For) -> tuple[tensor.Store, tuple[tensor.For, ...]] | None:
    """A store to places that are data and the loops around it, one after another in their order and with nothing
    beside them; None where a statement is none."""
    around: list[tensor.For] = []
    inner: tensor.Stmt = stmt
    while isinstance(inner, tensor.For) and inner.start is None and inner.kind in ("serial", "unrolled"):
        around.append(inner)
        inner = inner.body
    if not isinstance(inner, tensor.Store) or not any(_takes_memory(i) for i in inner.indices):
        return None
    return inner, tuple(around)


def own_element(stmt: tensor.Store, acc: Accumulator) -> Expr:
    """The value of a store to places that are data with `acc` for the element that it stores to; that of another
    store. NotFollowed where its places take memory that it stores to, or the value another element of it."""
    if not any(_takes_memory(i) for i in stmt.indices):
        return stmt.value
    number = Interner()
    own = [number(i) for i in stmt.indices]

    made: dict[int, Expr] = {}
    for node in post_order(stmt.value):
        if isinstance(node, Load) and node.buffer is stmt.buffer:
            if [number(i) for i in node.indices] != own:
                raise NotFollowed(f"{stmt.buffer.name} is stored to at places that are data, and read at others")
            made[id(node)] = acc
        else:
            made[id(node)] = node.with_children([made[id(c)] for c in node.children])
    if any(isinstance(n, Load) and n.buffer is stmt.buffer for i in stmt.indices for n in post_order(i)):
        raise NotFollowed(f"where {stmt.buffer.name} is stored to hangs on what it holds")
    return made[id(stmt.value)]


def _takes_memory(expr: Expr) -> bool:
    return any(isinstance(n, Load) for n in post_order(expr))

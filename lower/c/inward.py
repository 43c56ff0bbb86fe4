"""Short loops around rows of unknown length, carried into the rows (specs/lower.md, "c").

    for k in 3:                                for i in n:
        for i in n:                                out[i] = ((out[i] + x[i] * w[0]) + x[i + 1] * w[1]) + x[i + 2] * w[2]
            out[i] = out[i] + x[i + k] * w[k]

To begin a row and to end it costs as much as some of its elements, and only where its length is a number can a compiler
make that cheap. So more is done in a row. Each element gets the same operations in the same order; what moves are
elements that have nothing to do with one another. Nothing moves that might trap, nothing where two buffers share bytes,
and nothing whose indices are found in memory.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod

from assay.lower.c.expr import ExprWriter
from assay.lower.c.rows import Rows
from assay.semantics.scalar import Const, Expr, Load, Var, apply, const, substitute
from assay.semantics.tensor import Buffer, For, Seq, Stmt, Store, loads
from assay.semantics.walk import post_order, rewrite

MOST = 9
"""Iterations that one statement does at once: those of a window of 3 by 3."""
IN_ORDER = ("serial", "unrolled")


@dataclass(frozen=True, eq=False)
class _Nest:
    """Loops directly inside one another around a store: short ones, each of a known length, and those that they are
    carried into."""

    short: tuple[For, ...]
    rows: tuple[For, ...]
    store: Store

    @property
    def lengths(self) -> list[int]:
        return [_length(f) for f in self.short]


@dataclass(frozen=True, eq=False)
class Inward:
    """Finds what is carried into rows. `shared` are the buffers that lie in the bytes of others while the kernel runs,
    and views, with what they are views of."""

    exprs: ExprWriter
    rows: Rows
    shared: Collection[Buffer]
    parts: set[For] = field(default_factory=set)
    """The loops over parts that were made here: they stay where they are."""

    def carried(self, outer: For) -> Stmt | None:
        """What to do instead of a loop: the rows, with its iterations in them, or parts of it one after another for
        each of which this is done; None where it stays."""
        nest = _nest(outer) if outer not in self.parts else None
        if nest is None or not self.is_apart(nest) or not self.is_known(nest):
            return None
        if prod(nest.lengths) <= MOST:
            return _around(nest.rows, _at_once(nest, const(0, outer.var.dtype), nest.lengths))
        return self.in_parts(nest) if prod(nest.lengths[1:]) == 1 else None

    def in_parts(self, nest: _Nest) -> Stmt:
        """The first loop, too long for one statement, as parts that are not, as even as can be."""
        loop, (length, *ones) = nest.short[0], nest.lengths
        size = -(-length // -(-length // MOST))
        count, rest = divmod(length, size)
        var = Var(f"{loop.var.name}_part", loop.var.dtype)
        each = _at_once(nest, apply("mul", var, const(size, var.dtype)), [size, *ones])
        made: list[Stmt] = [For(var, const(count, var.dtype), _around(nest.rows, each), span=loop.span)]
        self.parts.update(f for f in made if isinstance(f, For))
        if rest:
            made.append(_around(nest.rows, _at_once(nest, const(count * size, var.dtype), [rest, *ones])))
        return Seq(tuple(made))

    def is_apart(self, nest: _Nest) -> bool:
        """Whether each element of the rows is stored to at one place of the rows alone, at the same one whatever the
        short loops have come to, and nothing but that element is read of what is stored to."""
        store, names = nest.store, [f.var for f in nest.rows]
        place, key = self.exprs.buffers.get(store.buffer), self.key(store.indices)
        if place is None or place.scalar or store.buffer in self.shared:
            return False
        if any(f.var in self.exprs.literals for f in (*nest.short, *nest.rows)):
            return False  # one variable, which stands for a number outside
        indices = [self.exprs.fold(i) for i in store.indices]
        short = {f.var for f in nest.short}
        if any(isinstance(n, Load) or n in short for i in indices for n in post_order(i)):
            return False
        if not all(any(self.rows.is_variable(i, v, names) for i in indices) for v in names):
            return False
        read = loads(self.exprs.fold(store.value))
        return not any(
            a.buffer in self.shared or (a.buffer is store.buffer and self.key(a.indices) != key) for a in read
        )

    def key(self, indices: Sequence[Expr]) -> tuple[int, ...]:
        """What two lists of indices that are one element agree in."""
        return tuple(self.exprs.number(self.exprs.fold(i)) for i in indices)

    def is_known(self, nest: _Nest) -> bool:
        """Whether nothing inside the loops ever traps, wherever they have come to."""
        store, loops = nest.store, (*nest.short, *nest.rows)
        if not all(self.rows.never_traps(f.extent) for f in loops):
            return False
        access = Load(store.buffer.dtype, store.buffer, store.indices)
        with self.rows.inside(loops):
            return all(self.rows.never_traps(root) for root in (access, store.value))


def _nest(outer: For) -> _Nest | None:
    """The loops from `outer` on, if they are short ones around rows, the last of which has an unknown length."""
    loops = [outer]
    while isinstance(loops[-1].body, For):
        loops.append(loops[-1].body)
    store = loops[-1].body
    count = next((i for i, f in enumerate(loops) if f.kind not in IN_ORDER or not _length(f)), len(loops))
    short, rows = tuple(loops[:count]), tuple(loops[count:])
    if not rows or _length(rows[-1]) or prod(map(_length, short)) == 1 or not isinstance(store, Store):
        return None
    names = {f.var for f in loops}
    found = [n for f in loops for n in post_order(f.extent)]
    plain = all(f.start is None and f.var.dtype is f.extent.dtype for f in loops) and len(names) == len(loops)
    return _Nest(short, rows, store) if plain and not any(isinstance(n, Load) or n in names for n in found) else None


def _length(loop: For) -> int:
    """How many iterations a loop has; 0 where that is unknown, or none."""
    return max(int(loop.extent.value), 0) if isinstance(loop.extent, Const) else 0


def _at_once(nest: _Nest, start: Expr, lengths: Sequence[int]) -> Store:
    """The store that does iterations of the short loops one after another, the first of these from `start` on: what
    each has made of the element is what the next one takes."""
    buffer, made = nest.store.buffer, None
    for at in product(*map(range, lengths)):
        by: dict[Var, Expr] = {f.var: const(i, f.var.dtype) for f, i in zip(nest.short, at, strict=True)}
        first = nest.short[0].var
        step = substitute(nest.store.value, {**by, first: apply("add", start, by[first])})
        made = step if made is None else _after(step, buffer, made)
    assert made is not None, "a short loop has an iteration"
    return replace(nest.store, value=made)


def _after(step: Expr, buffer: Buffer, made: Expr) -> Expr:
    """A value that takes `made` for the element that it is stored to."""
    return rewrite(step, lambda n: made if isinstance(n, Load) and n.buffer is buffer else n)


def _around(loops: Sequence[For], body: Stmt) -> Stmt:
    for loop in reversed(loops):
        body = replace(loop, body=body)
    return body

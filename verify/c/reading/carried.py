"""Loops of a tensor function in another order, where that is the same whatever the data (specs/verify.md, "c").

The text may go over a row once and do in each of its elements what short loops around the row do one after another:

    for k in 3:                                for i in n:
        for i in n:                                out[i] = ((out[i] + x[i] * w[0]) + x[i + 1] * w[1]) + x[i + 2] * w[2]
            out[i] = out[i] + x[i + k] * w[k]

Both are equal if each place of the row stores to an element of its own, the same in every iteration of the short loops,
if nothing else of that memory is read, and if nothing may trap. That nothing else lies in that memory is for who calls
the kernel: its pointer is restrict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from assay.semantics.scalar import Apply, Cast, Const, Expr, Interner, Load, Var, apply, const, may_trap, substitute
from assay.semantics.tensor import For, Seq, Stmt, Store
from assay.semantics.walk import post_order, rewrite

MOST = 9
"""Iterations of short loops that become one statement."""


@dataclass(frozen=True)
class _Nest:
    """Short loops directly inside one another around the loops of a row, and the one store inside."""

    short: tuple[For, ...]
    row: tuple[For, ...]
    store: Store

    @property
    def lengths(self) -> list[int]:
        """How many iterations each of the short loops has."""
        return [_length(f) for f in self.short]


def carried_in(outer: For) -> tuple[Stmt, Store] | None:
    """The row with the short loops inside, in even parts where they are long, and the store that has become of the one
    inside. None: the order may matter, or the loops are others."""
    nest = _nest(outer)
    if nest is None or not _is_apart(nest) or not _is_safe(nest):
        return None
    first, *others = nest.lengths
    if prod(nest.lengths) <= MOST:
        made = _at_once(nest, const(0, outer.var.dtype), nest.lengths)
        return _around(nest.row, made), made
    if prod(others) != 1:
        return None
    size = -(-first // -(-first // MOST))
    count = first // size
    part = Var("part", outer.var.dtype)
    made = _at_once(nest, apply("mul", part, const(size, part.dtype)), [size, *others])
    parts: list[Stmt] = [For(part, const(count, part.dtype), _around(nest.row, made))]
    if first % size:
        rest = _at_once(nest, const(count * size, part.dtype), [first % size, *others])
        parts.append(_around(nest.row, rest))
    return Seq(tuple(parts)), made


def _nest(outer: For) -> _Nest | None:
    """The loops from `outer` on, the first of them of known lengths, around one store."""
    loops = [outer]
    while isinstance(loops[-1].body, For):
        loops.append(loops[-1].body)
    store = loops[-1].body
    count = next((i for i, f in enumerate(loops) if not _length(f)), len(loops))
    names = {f.var for f in loops}
    plain = all(f.start is None for f in loops) and len(names) == len(loops) and isinstance(store, Store)
    if not plain or not 0 < count < len(loops) or not isinstance(store, Store):
        return None
    if any(isinstance(n, Load) or n in names for f in loops for n in post_order(f.extent)):
        return None
    return _Nest(tuple(loops[:count]), tuple(loops[count:]), store)


def _length(loop: For) -> int:
    return max(int(loop.extent.value), 0) if isinstance(loop.extent, Const) else 0


def _is_apart(nest: _Nest) -> bool:
    """Whether each place of the row stores to an element of its own, the same in every iteration of the short loops,
    and nothing else of that memory is read."""
    store, number = nest.store, Interner()
    short = {f.var for f in nest.short}
    if any(isinstance(n, Load) or n in short for i in store.indices for n in post_order(i)):
        return False
    if not all(any(i is f.var for i in store.indices) for f in nest.row):
        return False
    place = [number(i) for i in store.indices]
    read = [n for n in post_order(store.value) if isinstance(n, Load) and n.buffer is store.buffer]
    return store.value.dtype is store.buffer.dtype and all([number(i) for i in n.indices] == place for n in read)


def _is_safe(nest: _Nest) -> bool:
    """Whether no step may trap by its data; that elements lie inside is asked when the store is read."""
    for node in post_order(nest.store.value):
        fails = isinstance(node, Apply) and may_trap(node)
        fails |= isinstance(node, Load) and any(isinstance(n, Load) for i in node.indices for n in post_order(i))
        if fails or (isinstance(node, Cast) and node.arg.dtype.is_float and node.dtype.is_integer):
            return False
    return True


def _at_once(nest: _Nest, start: Expr, lengths: Sequence[int]) -> Store:
    """One store that does iterations of the short loops one after another, the first of them from `start` on."""
    buffer, made = nest.store.buffer, None
    for at in product(*map(range, lengths)):
        by: dict[Var, Expr] = {f.var: const(i, f.var.dtype) for f, i in zip(nest.short, at, strict=True)}
        by[nest.short[0].var] = apply("add", start, by[nest.short[0].var])
        step = substitute(nest.store.value, by)
        made = step if made is None else _behind(step, buffer, made)
    assert made is not None, "a short loop has an iteration"
    return replace(nest.store, value=made)


def _behind(step: Expr, buffer: object, made: Expr) -> Expr:
    """A step that takes what the one before has made for the element of the row."""
    return rewrite(step, lambda n: made if isinstance(n, Load) and n.buffer is buffer else n)


def _around(loops: Sequence[For], body: Stmt) -> Stmt:
    for loop in reversed(loops):
        body = replace(loop, body=body)
    return body

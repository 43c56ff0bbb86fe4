"""A tensor function many times at once, and operands that go through all numbers (specs/verify.md, "Trials")."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from assay.semantics.dtypes import DType
from assay.semantics.errors import Unsupported
from assay.semantics.scalar import Expr, Load, Var, const, evaluate_dim, variables
from assay.semantics.tensor import Buffer, Call, For, PrimFunc, Stmt, Store, program_order
from assay.semantics.tensor.blocks import without_blocks
from assay.semantics.tensor.mapping import Mapper
from assay.semantics.walk import Worklist, rewrite
from assay.verify.trials.data import every

Array = np.ndarray[Any, Any]

MOST = 1 << 22
"""Elements of results of one enumeration."""

_made: WeakKeyDictionary[PrimFunc, dict[int, PrimFunc | None]] = WeakKeyDictionary()


def batched(func: PrimFunc, count: int) -> PrimFunc | None:
    """`func` done `count` times, each parameter with one more axis in front; None where it calls another function."""
    known = _made.setdefault(func, {})
    if count not in known:
        known[count] = _batched(func, count)
    return known[count]


def _batched(func: PrimFunc, count: int) -> PrimFunc | None:
    try:
        flat = without_blocks(func)
    except Unsupported:
        return None
    if any(isinstance(s, Call) for s in program_order(flat.body)):
        return None
    at = Var("trial")
    wide = {p: Buffer(p.name, (count, *p.shape), p.dtype, p.scope) for p in flat.params}
    body = For(at, const(count), _Wider(at, wide).run(flat.body))
    return replace(flat, name=f"{func.name} many times", params=tuple(wide.values()), body=body)


def stores(func: PrimFunc, sizes: Mapping[Var, int] | None = None) -> int:
    """About how many stores a run is."""
    sizes = sizes or {}
    total = 0
    work = Worklist[tuple[Stmt, int]]([(func.body, 1)])
    for stmt, times in work:
        total += times if isinstance(stmt, Store) else 0
        if isinstance(stmt, For):
            known = all(v in sizes for v in variables(stmt.extent))
            times *= max(evaluate_dim(stmt.extent, sizes), 0) if known else 1
        work.add([(c, times) for c in stmt.children])
    return total


class _Wider(Mapper):
    """Accesses of parameters get one more index in front."""

    def __init__(self, at: Var, wide: dict[Buffer, Buffer]) -> None:
        super().__init__()
        self.at, self.wide = at, wide

    def expr(self, of: Expr) -> Expr:
        def change(node: Expr) -> Expr:
            if isinstance(node, Load) and node.buffer in self.wide:
                return Load(node.dtype, self.wide[node.buffer], (self.at, *node.indices))
            return node

        return rewrite(of, change)

    def own(self, s: Stmt) -> Stmt:
        found = super().own(s)
        if isinstance(found, Store) and found.buffer in self.wide:
            return replace(found, buffer=self.wide[found.buffer], indices=(self.at, *found.indices))
        return found


@dataclass(frozen=True)
class Through:
    """What goes through all numbers: one operand, or two together, of the sizes that they have."""

    places: tuple[int, ...]
    count: int
    """How many runs that takes."""
    all: bool
    """Whether that is all of them; else it is as many as `MOST` allows."""
    aligned: bool
    make: Callable[[int, np.random.Generator], dict[int, Array]]
    """The operands of so many runs: one row for each."""


def through(types: Sequence[tuple[tuple[int, ...], DType]], result: int, meet: bool = True) -> Iterator[Through]:
    """All pairs of the operands of at most 8 bits; each of 16, and one of 8 that is alone, by itself. `result` is about
    how many elements one run computes; where numbers of two operands do not `meet`, there are no pairs."""
    sizes = [int(np.prod(shape)) for shape, _ in types]
    full = [i for i, n in enumerate(sizes) if n]
    small = [i for i in full if types[i][1].bits <= 8]
    pairs = [(i, j) for k, i in enumerate(small) for j in small[k + 1 :]] if meet else []
    single = [(i,) for i in full if types[i][1].bits <= 16 and not any(i in p for p in pairs)]
    yield from _through((*pairs, *single), types, sizes, result, {of: every(of) for _, of in types if of.bits <= 16})


def through_some(
    types: Sequence[tuple[tuple[int, ...], DType]], result: int, numbers: Mapping[DType, Array]
) -> Iterator[Through]:
    """The same with those numbers of each dtype, for every pair of operands, or the only one."""
    sizes = [int(np.prod(shape)) for shape, _ in types]
    full = [i for i, n in enumerate(sizes) if n]
    pairs = [(i, j) for k, i in enumerate(full) for j in full[k + 1 :]]
    yield from _through(pairs or [(i,) for i in full], types, sizes, result, numbers)


def _through(
    chosen: Sequence[tuple[int, ...]], types: Sequence[tuple[tuple[int, ...], DType]], sizes: Sequence[int],
    result: int,
    numbers: Mapping[DType, Array],
) -> Iterator[Through]:  # fmt: skip
    for places in chosen:
        values = [numbers[types[i][1]] for i in places]
        shapes = [types[i][0] for i in places]
        most = max(1, MOST // max(1, result, *(sizes[i] for i in places)))
        total = int(np.prod([len(v) for v in values]))
        if len({s for s in shapes}) == 1:
            wanted = -(-total // sizes[places[0]])
            count = min(wanted, most)
            yield Through(places, count, count == wanted, True, _aligned(places, shapes, values, count, total))
        else:
            a, b = (-(-len(v) // sizes[i]) for v, i in zip(values, places, strict=True))
            turns = min(sizes[i] for i in places)
            wanted = a * b * turns
            count = min(wanted, most)
            yield Through(places, count, count == wanted, False, _crossed(places, shapes, values, count, (a, b, turns)))


def _aligned(
    places: tuple[int, ...], shapes: Sequence[tuple[int, ...]], values: Sequence[Array], count: int, total: int
) -> Callable[[int, np.random.Generator], dict[int, Array]]:
    size = int(np.prod(shapes[0]))

    def make(rows: int, rng: np.random.Generator) -> dict[int, Array]:
        order = np.arange(rows * size) % total
        if rows * size < total:  # not all: those that are taken are spread
            order = rng.permutation(total)[: rows * size]
        found: dict[int, Array] = {}
        for i, v, shape in zip(places, values, shapes, strict=True):
            found[i] = v[order % len(v)].reshape((rows, *shape))
            order = order // len(v)
        return found

    return make


def _crossed(
    places: tuple[int, ...],
    shapes: Sequence[tuple[int, ...]],
    values: Sequence[Array],
    count: int,
    parts: tuple[int, int, int],
) -> Callable[[int, np.random.Generator], dict[int, Array]]:
    """Every part of the numbers of one with every part of those of the other, turned so that each place meets each."""
    a, b, turns = parts
    sizes = [int(np.prod(s)) for s in shapes]
    turned = int(sizes[1] < sizes[0])

    def make(rows: int, rng: np.random.Generator) -> dict[int, Array]:
        which = np.arange(a * b * turns) if rows == a * b * turns else rng.permutation(a * b * turns)[:rows]
        part = [which % a, which // a % b]
        turn = which // (a * b)
        found: dict[int, Array] = {}
        for k, (i, v, shape) in enumerate(zip(places, values, shapes, strict=True)):
            at = np.arange(sizes[k])[None, :] + (turn[:, None] if k == turned else 0)
            found[i] = v[(part[k][:, None] * sizes[k] + at % sizes[k]) % len(v)].reshape((rows, *shape))
        return found

    return make

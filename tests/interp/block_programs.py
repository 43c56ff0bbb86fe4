"""Small random tensor functions with blocks, views, lazy choices and the other nodes that the lowering takes away."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from assay.semantics.dtypes import BOOL
from assay.semantics.scalar import Expr, Var, apply, both, choice, const, either
from assay.semantics.scalar.derived import DEFINITIONS
from assay.semantics.tensor import (
    Alias,
    Allocate,
    Block,
    Buffer,
    Evaluate,
    For,
    IterKind,
    IterVar,
    Pragma,
    PrimFunc,
    Region,
    Stmt,
    View,
    While,
    loops,
    seq,
    store,
)
from tests.interp.programs import Array, Maker, values


class BlockMaker(Maker):
    """Makes functions with blocks; `sound` ones mostly run to their end."""

    def stmt(self, depth: int) -> Stmt:
        if depth < 4:
            match self.number(0, 11):
                case 0 | 1 | 2:
                    return self.block(depth)
                case 3:
                    return self.alias(depth)
                case 4:
                    return Pragma("pragma_note", self.number(0, 3), self.stmt(depth + 1))
                case 5:
                    return self.shifted(depth)
                case 6 if self.number(0, 2) == 0:
                    return self.counted(depth)
        return super().stmt(depth)

    def value(self, depth: int) -> Expr:
        kind = self.number(0, 11)
        if depth < 2 and kind == 0:
            return choice(self.condition(), self.value(depth + 1), self.value(depth + 1))
        if depth < 2 and kind == 2:
            return self.guarded()
        if depth < 2 and kind == 1 and self.of.is_float:
            name = self.random.choice(list(DEFINITIONS))
            x = apply(name, self.value(depth + 1))
            return x if x.dtype is self.of else choice(x, const(1, self.of), const(0, self.of))
        return super().value(depth)

    def guarded(self) -> Expr:
        """An element where its index is in bounds, else a number, as padding has it."""
        b = self.random.choice(self.inputs)
        indices = tuple(self.affine() - self.number(0, 4) for _ in b.shape)
        inside: Expr = const(True, BOOL)
        for i, n in zip(indices, b.static_shape, strict=True):
            inside = both(both(inside, i >= 0), i < n)
        return choice(inside, b[indices], const(2, self.of))

    def condition(self) -> Expr:
        one = super().condition()
        match self.number(0, 9):
            case 0:
                return both(one, super().condition())
            case 1:
                return either(one, super().condition())
            case 2:
                return choice(one, super().condition(), super().condition())
            case _:
                return one

    def shifted(self, depth: int) -> Stmt:
        """A loop that does not start at 0."""
        self.count += 1
        var = Var(f"i{self.count}")
        start = self.random.choice([const(0), const(2), self.affine()])
        self.vars.append(var)
        body = self.stmt(depth + 1)
        self.vars.pop()
        kind: Any = self.random.choice(["serial"] * 6 + ["parallel", "unrolled"])
        return For(var, const(self.number(0, 4)), body, kind, start, {"note": 1})

    def counted(self, depth: int) -> Stmt:
        """A while loop with a lazy condition."""
        self.count += 1
        n = Buffer(f"n{self.count}", (1,), self.index.dtype)
        step = store(n, 0, n[0] + 1)
        condition = both(n[0] < self.number(0, 4), choice(n[0] < 7, self.index[n[0]] < 9, const(False, BOOL)))
        return Allocate(n, seq(store(n, 0, 0), While(condition, seq(self.stmt(depth + 1), step))))

    def alias(self, depth: int) -> Stmt:
        """A view of a writable buffer: flat, transposed, or a part of it."""
        self.count += 1
        whole = self.random.choice(self.writable)
        size = int(np.prod(whole.static_shape, dtype=np.int64))
        match self.number(0, 3):
            case 0:
                shape, offset, strides = (size,), 0, (1,)
            case 1 if len(whole.shape) == 2:
                n, m = whole.static_shape
                shape, offset, strides = (m, n), 0, (1, m)
            case 2:
                shape, offset, strides = (max(size - 3, 0),), self.number(0, 4), (1,)
            case _:
                shape, offset, strides = (7,), self.number(0, 2), (self.number(1, 2),)
        buffer = Buffer(f"view{self.count}", shape, whole.dtype)
        place = const(offset) if self.number(0, 3) else self.affine()
        view = View(buffer, whole, place, tuple(const(s) for s in strides))
        self.writable.append(buffer)
        body = [self.stmt(depth + 1)]
        if self.number(0, 3) == 0:
            body.append(self.probe(buffer))
        self.writable.remove(buffer)
        return Alias(view, seq(*body))

    def block(self, depth: int) -> Stmt:
        """Loops around a block that follows them, its value shifted or its domain cut now and then."""
        self.count += 1
        name = f"b{self.count}"
        n = self.number(0, 3)
        outer = [Var(f"{name}l{k}") for k in range(n)]
        extents = [self.number(1, 4) for _ in outer]
        inner = [Var(f"{name}v{k}") for k in range(n)]
        iterators = []
        for var, loop, extent in zip(inner, outer, extents, strict=True):
            kind: IterKind = self.random.choice(["spatial", "spatial", "reduce"])
            match self.number(0, 9):
                case 0:
                    iterators.append(IterVar(var, kind, const(extent + 2), loop + 2, const(2)))
                case 1:
                    iterators.append(IterVar(var, kind, const(max(extent - 1, 1)), loop))
                case 2:
                    iterators.append(IterVar(var, kind, const(extent), const(extent - 1) - loop))
                case _:
                    iterators.append(IterVar(var, kind, const(extent), loop))
        self.vars += outer
        predicate = self.condition() if self.number(0, 3) == 0 else None
        if predicate is None and outer and self.number(0, 1):
            predicate = outer[0] < max(extents[0] - 1, 1)
        del self.vars[len(self.vars) - n :]
        self.vars += inner
        target = self.random.choice(self.writable)
        where = self.indices(target)
        own = Buffer(f"{name}own", (9,), self.of)
        body = [self.stmt(depth + 1)]
        allocated = ()
        if self.number(0, 3) == 0:
            self.writable.append(own)
            body = [loops("z", (9,), lambda z: store(own, z, const(1, self.of))), self.stmt(depth + 1)]
            self.writable.remove(own)
            allocated = (own,)
        views = ()
        if self.number(0, 3) == 0 and target.shape:
            views = (self.matched(name, target),)
            body.append(Evaluate(views[0].buffer[(0,) * len(views[0].buffer.shape)]))
        init = store(target, where, const(0, self.of)) if self.number(0, 2) else None
        body.append(store(target, where, target[where] + self.value(1)))
        del self.vars[len(self.vars) - n :]
        reads = (Region(target, where, (None,) * len(where)),) if self.number(0, 1) else None
        stmt: Stmt = Block(
            name, tuple(iterators), seq(*body), init, predicate, reads, reads, allocated, views, {"advice": (1, "x")}
        )
        for var, extent in zip(reversed(outer), reversed(extents), strict=True):
            kind_: Any = self.random.choice(["serial"] * 17 + ["parallel", "vectorized", "unrolled"])
            stmt = For(var, const(extent), stmt, kind_)
        return stmt

    def matched(self, name: str, whole: Buffer) -> View:
        """A match of a part of a buffer, from its first index to an end."""
        shape = whole.static_shape
        starts = tuple(const(self.number(0, 2)) for _ in shape)
        stops = tuple(s + self.number(1, 4) + 5 * self.number(0, 1) for s in starts)
        region = Region(whole, starts, stops)
        part = tuple(int(e.value) - int(s.value) for s, e in zip(starts, stops, strict=True))  # type: ignore[attr-defined]
        steps = [int(np.prod(shape[k + 1 :], dtype=np.int64)) for k in range(len(shape))]
        offset: Expr = const(0)
        for s, step in zip(starts, steps, strict=True):
            offset = offset + s * step
        return View(Buffer(f"{name}part", part, whole.dtype), whole, offset, tuple(const(s) for s in steps), region)


def random_blocks(random: Random) -> tuple[PrimFunc, list[Array]]:
    maker = BlockMaker(random)
    func = maker.func()
    rng = np.random.default_rng(random.randint(0, 2**32 - 1))
    data = [values(rng, b.static_shape, b.dtype) for b in maker.inputs]
    return func, [*data, rng.integers(0, 7, 9)]

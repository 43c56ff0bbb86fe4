"""Random small tensor functions over symbolic sizes, made by choices alone; many are right, many are not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from assay.semantics.dtypes import FLOAT32, INT64
from assay.semantics.scalar import Expr, Number, Var, apply, both, cast, choice, const
from assay.semantics.tensor import (
    Alias,
    Allocate,
    Assert,
    Block,
    Buffer,
    For,
    IterVar,
    LetStmt,
    LoopKind,
    PrimFunc,
    Region,
    Stmt,
    View,
    seq,
    store,
    when,
)

T = TypeVar("T")
Choose = Callable[[int], int]
"""A number from 0 up to but not including the argument; 0 is the simplest choice."""

N, M = Var("n"), Var("m")


class SymbolicMaker:
    """One function of inputs x (n, m), y (m,) and whole numbers w (n,) that fills out (n, m) and sums (n,)."""

    def __init__(self, choose: Choose) -> None:
        self.choose = choose
        self.count = 0
        self.careless = choose(2) == 1
        self.inputs = [Buffer("x", (N, M), FLOAT32), Buffer("y", (M,), FLOAT32), Buffer("w", (N,), INT64)]
        self.outputs = [Buffer("out", (N, M), FLOAT32), Buffer("sums", (N,), FLOAT32)]
        self.readable = [*self.inputs]
        self.vars: list[tuple[Var, Number]] = []
        """Loop variables and what they stay below."""

    def pick(self, of: Sequence[T]) -> T:
        return of[self.choose(len(of))]

    def perhaps(self, right: T, *wrong: T) -> T:
        """What is right; a careless maker may take something else."""
        return self.pick((right, right, right, *wrong)) if self.careless else right

    def name(self, base: str) -> str:
        self.count += 1
        return f"{base}{self.count}"

    def make(self) -> PrimFunc:
        tmp = Buffer("tmp", self.pick([(N, M), (N,), (M + 1,), (N + 2, M)]), FLOAT32)
        uses_tmp = self.choose(2)
        parts = [self.fill(tmp)] if uses_tmp else []
        self.readable += [tmp] if uses_tmp else []
        for out in self.outputs:
            parts.append(self.fill(out))
            self.readable.append(out)
        parts += [self.nest(self.pick([*self.outputs, *([tmp] if uses_tmp else [])])) for _ in range(self.choose(2))]
        body = seq(*parts)
        return PrimFunc("f", (*self.inputs, *self.outputs), 2, Allocate(tmp, body) if uses_tmp else body)

    # --- nests over a whole buffer ---------------------------------------------------------------------------------

    def kind(self) -> LoopKind:
        return self.pick(("serial", "parallel", "serial", "vectorized"))

    def fill(self, out: Buffer) -> Stmt:
        """A nest that mostly writes all of a buffer."""
        way = self.choose(9)
        if way == 0:
            return self.box(out, out.shape)
        if way == 1:
            return self.tiled(out)
        if way == 2:
            return self.fused(out)
        if way == 3:
            return seq(self.box(out, out.shape, plain=True), self.reduction(out))
        if way == 4:
            return self.split_box(out)
        if way == 5:
            return self.blocked(out)
        if way == 6:
            return self.viewed(out)
        if way == 7:
            return self.backwards(out)
        return self.box(out, [self.near(d) for d in out.shape])

    def near(self, d: Number) -> Number:
        """A size, now and then off by one."""
        off = self.perhaps(0, 0, 0, 0, 0, 1, -1)
        return d + off if off else d

    def loops(self, extents: Sequence[Number], body: Callable[..., Stmt], kind: LoopKind) -> Stmt:
        vars = [Var(self.name("i")) for _ in extents]
        self.vars += list(zip(vars, extents, strict=True))
        stmt = body(*vars)
        for var, extent in zip(reversed(vars), reversed(extents), strict=True):
            stmt = For(var, extent if isinstance(extent, Expr) else const(extent), stmt, kind)
        del self.vars[len(self.vars) - len(vars) :]
        return stmt

    def box(self, out: Buffer, extents: Sequence[Number], plain: bool = False) -> Stmt:
        def element(*i: Expr) -> Stmt:
            return store(out, i, const(0, FLOAT32) if plain else self.value(2))

        return self.loops(list(extents), element, self.kind())

    def tiled(self, out: Buffer) -> Stmt:
        tile = self.pick((2, 3, 4))
        first, *rest = out.shape
        outer = (first + self.perhaps(tile - 1, 0, tile)) // tile

        def element(*i: Expr) -> Stmt:
            at = (i[0] * tile + i[1], *i[2:])
            put = store(out, at, self.value(1))
            return when(at[0] < self.near(first), put) if self.perhaps(True, False) else put

        return self.loops([outer, tile, *rest], element, self.kind())

    def fused(self, out: Buffer) -> Stmt:
        if len(out.shape) < 2:
            return self.box(out, out.shape)
        a, b = out.shape
        by = self.perhaps(b, a)

        def element(f: Expr) -> Stmt:
            return store(out, (f // by, f % by), self.value(1))

        return self.loops([apply("mul", a, b)], element, self.kind())

    def reduction(self, out: Buffer) -> Stmt:
        extent = self.pick((N, M, 3))

        def element(*i: Expr) -> Stmt:
            at = i[: len(out.shape)]
            return store(out, at, out[at] + self.value(1))

        return self.loops([*map(self.near, out.shape), extent], element, self.perhaps("serial", "parallel"))

    def split_box(self, out: Buffer) -> Stmt:
        """The first dimension in two parts, at a place that may be wrong."""
        first, *rest = out.shape
        middle = self.pick((first // 2, apply("min", first, 2), const(1)))

        def low(*i: Expr) -> Stmt:
            return store(out, i, self.value(1))

        def high(*i: Expr) -> Stmt:
            return store(out, (i[0] + middle, *i[1:]), self.value(1))

        return seq(
            self.loops([self.near(middle), *rest], low, self.kind()),
            self.loops([self.near(first - middle), *rest], high, self.kind()),
        )

    def backwards(self, out: Buffer) -> Stmt:
        def element(*i: Expr) -> Stmt:
            return store(out, tuple(d - v - 1 for d, v in zip(out.shape, i, strict=True)), self.value(1))

        return self.loops(list(out.shape), element, self.kind())

    def blocked(self, out: Buffer) -> Stmt:
        inner = [Var(self.name("v")) for _ in out.shape]

        def element(*i: Expr) -> Stmt:
            iterators = tuple(
                IterVar(v, "spatial", d if isinstance(d, Expr) else const(d), self.perhaps(o, o + 1))
                for v, o, d in zip(inner, i, out.shape, strict=True)
            )
            self.vars += list(zip(inner, out.shape, strict=True))
            at = tuple(inner)
            body = store(out, at, self.value(1))
            del self.vars[len(self.vars) - len(inner) :]
            said = (Region(out, self.perhaps(at, i), (None,) * len(at)),) if self.choose(3) else None
            return Block(self.name("b"), iterators, body, writes=said)

        return self.loops(list(out.shape), element, self.kind())

    def viewed(self, out: Buffer) -> Stmt:
        """A part of a buffer under another name, the rest under its own."""
        first, *rest = out.shape
        view = Buffer(self.name("view"), (self.near(first - 1), *rest), FLOAT32)
        step = rest[0] if rest else 1
        strides = (step if isinstance(step, Expr) else const(step), *(const(1) for _ in rest))
        offset = self.perhaps(strides[0], const(0))

        def head(*i: Expr) -> Stmt:
            return store(out, (0, *i), self.value(1))

        first_row = self.loops(rest, head, "serial") if rest else store(out, 0, const(1, FLOAT32))
        body = self.box(view, view.shape)
        whole = Alias(View(view, out, offset, strides), body)
        return seq(when(self.expr(first) > 0, first_row), when(self.expr(first) > self.perhaps(0, 1), whole))

    # --- parts -----------------------------------------------------------------------------------------------------

    def expr(self, number: Number) -> Expr:
        return number if isinstance(number, Expr) else const(int(number))

    def nest(self, out: Buffer) -> Stmt:
        """A nest that changes what is there."""

        def element(*i: Expr) -> Stmt:
            where = tuple(self.index(d) for d in out.shape)
            change = store(out, where, out[where] + self.value(1))
            match self.choose(4):
                case 0:
                    return when(self.condition(), change)
                case 1:
                    return self.let(change)
                case 2:
                    return seq(Assert(self.condition(), "as it happens"), change)
                case _:
                    return change

        extents = [self.near(self.pick((N, M, 2))) for _ in range(1 + self.choose(2))]
        return self.loops(extents, element, self.perhaps("serial", "parallel", "vectorized"))

    def let(self, body: Stmt) -> Stmt:
        var = Var(self.name("t"))
        return LetStmt(var, self.index(N), body)

    def condition(self) -> Expr:
        a = self.index(N)
        return self.pick((a < N, both(a >= 0, a < M), a + 1 < N, apply("eq", a % 2, 0)))

    def index(self, d: Number) -> Expr:
        """An index for a dimension, mostly inside."""
        inside = [v for v, e in self.vars if e is d]
        anything = [v for v, _ in self.vars]
        match self.choose(9):
            case 0 | 1 | 2 | 3 if inside:
                return self.pick(inside)
            case 4 if inside:
                return self.pick(inside) + self.perhaps(0, 1, -1)
            case 5 if anything:
                return apply("max", apply("min", self.pick(anything), d - 1), 0)
            case 6 if anything:
                return self.pick(anything) % d
            case 7 if anything and self.careless:
                return self.pick(anything)
            case _:
                return inside[0] if inside else apply("max", apply("min", 0, d - 1), 0)

    def value(self, depth: int) -> Expr:
        b = self.pick(self.readable)
        where = tuple(self.index(d) for d in b.shape)
        read = cast(b[where], FLOAT32)
        match self.choose(5):
            case 0 if depth:
                return read + self.value(depth - 1)
            case 1:
                guard = both(where[0] >= 0, where[0] < b.shape[0])
                for i, d in zip(where[1:], b.shape[1:], strict=True):
                    guard = both(guard, both(i >= 0, i < d))
                return choice(guard, read, const(1, FLOAT32))
            case 2:
                whole = self.inputs[2]
                at = self.index(N)
                chosen = whole[at]
                inside = both(chosen >= 0, chosen < M)
                y = self.inputs[1]
                return (
                    choice(inside, y[chosen], const(0, FLOAT32))
                    if self.perhaps(True, False)
                    else y[apply("max", chosen, 0)]
                )
            case _:
                return read


def symbolic(choose: Choose) -> PrimFunc:
    return SymbolicMaker(choose).make()

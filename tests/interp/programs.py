"""Small random tensor functions, and the comparison of the vector interpreter with the definition on them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from assay.interp import tensor, vector
from assay.interp.binding import bind_dims, shape_at
from assay.semantics.dtypes import BOOL, DTYPES, INT64, DType, dtype
from assay.semantics.errors import Invalid, Trap
from assay.semantics.scalar import Expr, Var, apply, const, select
from assay.semantics.tensor import (
    Allocate,
    AllocateConst,
    Assert,
    Buffer,
    Evaluate,
    For,
    LetStmt,
    PrimFunc,
    Seq,
    Stmt,
    loops,
    seq,
    store,
    when,
)
from assay.semantics.tensor.blocks import without_blocks
from assay.semantics.tensor.rules import check_prim_func

Array = np.ndarray[Any, Any]


def values(rng: np.random.Generator, shape: tuple[int, ...], of: DType) -> Array:
    """Numbers that make roundings, wraps and special values likely."""
    if of is BOOL:
        return rng.integers(0, 2, shape).astype(bool)
    if of.is_integer:
        return rng.integers(max(int(of.min), -(2**40)), min(int(of.max), 2**40), shape, endpoint=True).astype(of.numpy)
    data = rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, shape)
    special = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, of.smallest_subnormal, 1.0], shape)
    with np.errstate(all="ignore"):
        return np.where(rng.random(shape) < 0.15, special, data).astype(of.numpy)


def same_bits(a: Array, b: Array) -> bool:
    """Equal bit for bit, any NaN as good as any other."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    x, y = np.ascontiguousarray(a).view(np.uint8), np.ascontiguousarray(b).view(np.uint8)
    width = a.dtype.itemsize
    equal = (x.reshape(-1, width) == y.reshape(-1, width)).all(axis=1).reshape(a.shape) if a.size else np.array(True)
    if dtype(a.dtype).is_float:
        equal = equal | (np.isnan(a) & np.isnan(b))
    return bool(equal.all())


def outcome(run: Any) -> Any:
    try:
        return run()
    except Trap as trap:
        return (trap.kind, trap.message)


def about(func: PrimFunc, compiled: vector.Compiled) -> str:
    """What to read when the two disagree."""
    return f"{func}\n{compiled.source}"[:5000]


def agree(func: PrimFunc, inputs: list[Array], *, planned: bool | None = None) -> Any:
    """Run every way and compare; generated kernels alone must trap exactly where the definition does."""
    expected = outcome(lambda: tensor.run(func, inputs))
    if planned is not None:
        compiled = vector.compile_function(func, inputs, (), ("lanes",))
        assert (compiled.kernel is not None) == planned, compiled.reason
    for way in vector.WAYS:
        alone(func, inputs, way, expected)
    got = outcome(lambda: vector.run(func, inputs))
    if expected and isinstance(expected[0], str):
        assert got == expected
    else:
        assert all(map(same_bits, got, expected))
    return expected


def alone(func: PrimFunc, inputs: list[Array], way: vector.Way, expected: Any) -> str | None:
    """Compare the kernel that is generated one way with what the definition gave; the reason where there is none."""
    compiled = vector.compile_function(func, inputs, (), (way,))
    generated = compiled.kernel
    if generated is None:
        return compiled.reason
    outputs = [np.full(x.shape, 77).astype(x.dtype) for x in _like_outputs(func, inputs)]

    def kernel() -> Any:
        with np.errstate(all="ignore"):
            generated(inputs, outputs, [None] * len(without_blocks(func).allocations))
        return tuple(outputs)

    got = outcome(kernel)
    trapped = isinstance(expected[0], str) if expected else False
    assert (isinstance(got[0], str) if got else False) == trapped, f"{way}\n{expected}\n{got}\n{about(func, compiled)}"
    if trapped:
        if way == "straight":  # in the order of the lowered form; lanes meet traps in another
            first = outcome(lambda: tensor.run(without_blocks(func), inputs))
            assert got[0] == first[0], f"{first}\n{got}\n{about(func, compiled)}"
    else:
        assert all(map(same_bits, got, expected)), f"{way}\n{about(func, compiled)}"
    return None


def _like_outputs(func: PrimFunc, inputs: list[Array]) -> list[Array]:
    dims = bind_dims(func, inputs, ())
    return [np.empty(shape_at(b, dims), b.dtype.numpy) for b in func.outputs]


# --- random programs ---------------------------------------------------------------------------------------------


class Maker:
    """Makes small functions: nests with affine, tiled, divided and gathered indices, guards, lets, loops of all
    kinds."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.of = DTYPES[random.choice(["float32", "float32", "int32", "float16", "int8", "uint8", "float64"])]
        self.inputs = [Buffer(f"x{i}", self.shape(), self.of) for i in range(random.randint(1, 2))]
        self.index = Buffer("idx", (9,), INT64)
        self.outputs = [Buffer(f"out{i}", self.shape(), self.of) for i in range(random.randint(1, 2))]
        self.writable = list(self.outputs)
        self.vars: list[Var] = []
        self.scalars: list[Var] = []
        self.count = 0

    def shape(self) -> tuple[int, ...]:
        return tuple(self.random.randint(7, 9) for _ in range(self.random.randint(0, 3)))

    def func(self) -> PrimFunc:
        parts: list[Stmt] = []
        for b in self.outputs:
            if self.random.random() < 0.85:
                parts.append(self.fill(b))
        parts += [self.stmt(0) for _ in range(self.random.randint(1, 3))]
        params = (*self.inputs, self.index, *self.outputs)
        return PrimFunc("f", params, len(self.outputs), Seq(tuple(parts)))

    def fill(self, b: Buffer) -> Stmt:
        """Mostly a write of the whole buffer, in one of several ways; sometimes a bit too little."""
        pattern = self.number(0, 9)
        one = const(1, self.of)
        shape = b.static_shape

        def nest(extents: list[int], index: Callable[..., tuple[Expr, ...]]) -> Stmt:
            names = " ".join(f"f{k}" for k in range(len(extents)))
            return loops(
                names, extents, lambda *i: store(b, index(*i), one), kind=self.random.choice(["serial", "parallel"])
            )

        if not shape or pattern <= 4:
            return nest(list(shape), lambda *i: i)
        axis, n, short = self.number(0, len(shape) - 1), 0, int(self.random.random() < 0.3)
        n = shape[axis]
        low, high = shape[:axis], shape[axis + 1 :]

        def at(i: tuple[Expr, ...], here: Expr, used: int) -> tuple[Expr, ...]:
            return (*i[:axis], here, *i[axis + used :])

        match pattern:
            case 5:  # two parts
                cut = self.number(1, n - 1)
                first = nest([*low, cut, *high], lambda *i: i)
                rest = nest(
                    [*low, n - cut - short, *high], lambda *i: at(i, i[axis] + cut + short * self.number(0, 1), 1)
                )
                return seq(first, rest) if self.number(0, 1) else seq(rest, first)
            case 6:  # backwards
                return nest([*low, n - short, *high], lambda *i: at(i, const(n - 1) - i[axis], 1))
            case 7:  # tiles
                size = self.number(2, 3)
                inner = size - short
                return (
                    nest([*low, n // size, inner, *high], lambda *i: at(i, i[axis] * size + i[axis + 1], 2))
                    if n % size == 0
                    else nest(list(shape), lambda *i: i)
                )
            case 8:  # every second, and the others
                even = nest([*low, (n + 1) // 2, *high], lambda *i: at(i, i[axis] * 2, 1))
                odd = nest([*low, n // 2 - short, *high], lambda *i: at(i, i[axis] * 2 + 1, 1))
                return seq(even, odd)
            case _:  # in either branch
                part = nest([*low, n - short, *high], lambda *i: i)
                return when(self.index[0] < self.number(0, 7), nest(list(shape), lambda *i: i), part)

    def probe(self, b: Buffer) -> Stmt:
        """A read of every element."""
        names = " ".join(f"r{k}" for k in range(len(b.shape)))
        return loops(names, b.shape, lambda *i: Evaluate(b[i]))

    def number(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def affine(self) -> Expr:
        """An index that is mostly within 0 to 6."""
        if not self.vars:
            return const(self.number(0, 6))
        v = self.random.choice(self.vars)
        u = self.random.choice(self.vars)
        c = self.number(0, 2)
        match self.number(0, 11):
            case 0 | 1 | 2:
                return v + 0
            case 3:
                return v + c
            case 4:
                return v * 2
            case 5:
                return v + u
            case 6:
                return v * 2 + u
            case 7:
                return const(4) - v
            case 8:
                return const(c)
            case 9:
                return v // (c + 1)
            case 10:
                return (v + u) % (c + 1)
            case _:
                return self.index[v + c]

    def indices(self, b: Buffer) -> tuple[Expr, ...]:
        # mostly the innermost loops in order, as kernels have it
        if self.random.random() < 0.6 and len(self.vars) >= len(b.shape):
            return tuple(self.vars[len(self.vars) - len(b.shape) :])
        return tuple(self.affine() for _ in b.shape)

    def value(self, depth: int) -> Expr:
        of = self.of
        kind = self.number(0, 9 if depth < 2 else 4)
        if self.scalars and self.random.random() < 0.4:
            return self.random.choice(self.scalars)
        if kind <= 3:
            b = self.random.choice([*self.inputs, *self.inputs, *self.writable])
            return b[self.indices(b)]
        if kind == 4:
            return const(self.random.choice([0, 1, 3]), of)
        a, b2 = self.value(depth + 1), self.value(depth + 1)
        match kind:
            case 5:
                return apply(self.random.choice(["max", "min"]), a, b2)
            case 6:
                return select(apply(self.random.choice(["lt", "eq", "ge"]), a, b2), a, b2)
            case 7 if of.is_integer and self.random.random() < 0.2:
                return apply(self.random.choice(["floordiv", "truncmod"]), a, b2)
            case 7:
                return a - b2
            case 8:
                return a * b2
            case _:
                return a + b2

    def condition(self) -> Expr:
        return apply(self.random.choice(["lt", "le", "eq", "ne"]), self.affine(), self.affine())

    def store(self) -> Stmt:
        b = self.random.choice(self.writable)
        i = self.indices(b)
        value = self.value(0)
        if self.random.random() < 0.4:
            value = b[i] + value
        return store(b, i, value)

    def stmt(self, depth: int) -> Stmt:
        kind = self.number(0, 13) if depth < 4 else 0
        match kind:
            case 0 | 1:
                return self.store()
            case 2:
                return seq(*(self.stmt(depth + 1) for _ in range(self.number(1, 3))))
            case 3:
                return when(self.condition(), self.stmt(depth + 1), self.stmt(depth + 1) if self.number(0, 1) else None)
            case 4:
                return self.let(depth)
            case 5:
                return self.allocation(depth)
            case 6 if self.random.random() < 0.5:
                return self.probe(self.random.choice(self.writable))
            case 6:
                return self.random.choice([Assert(self.affine() < 7, "too large"), Evaluate(self.value(0))])
            case _:
                return self.loop(depth)

    def let(self, depth: int) -> Stmt:
        self.count += 1
        if self.number(0, 1):
            scalar = Var(f"t{self.count}", self.of)
            held = self.value(1)
            self.scalars.append(scalar)
            inside = seq(*(self.stmt(depth + 1) for _ in range(self.number(1, 2))))
            self.scalars.pop()
            return LetStmt(scalar, held, inside)
        var = Var(f"t{self.count}")
        value = self.affine()
        self.vars.append(var)
        body = self.stmt(depth + 1)
        self.vars.pop()
        return LetStmt(var, value, body)

    def allocation(self, depth: int) -> Stmt:
        self.count += 1
        b = Buffer(f"tmp{self.count}", self.shape()[:2], self.of)
        self.writable.append(b)
        body = [self.stmt(depth + 1)]
        if self.random.random() < 0.8:
            body.insert(0, self.fill(b))
        if self.number(0, 1):
            body.append(self.probe(b))
        self.writable.pop()
        if self.number(0, 3) == 0:
            data = np.arange(int(np.prod(b.static_shape)) or 1).reshape(b.static_shape).astype(b.dtype.numpy)
            return AllocateConst(b, data, body[-1])
        return Allocate(b, seq(*body))

    def loop(self, depth: int) -> Stmt:
        self.count += 1
        var = Var(f"i{self.count}")
        extent: Expr = const(self.random.choice([0, 1, 2, 3, 4, 4]))
        if self.vars and self.random.random() < 0.15:
            extent = self.random.choice(self.vars) + 1
        self.vars.append(var)
        body = self.stmt(depth + 1)
        self.vars.pop()
        kind: Any = self.random.choice(["serial"] * 7 + ["parallel", "vectorized"])
        return For(var, extent, body, kind)


def random_case(random: Random) -> tuple[PrimFunc, list[Array]]:
    maker = Maker(random)
    func = maker.func()
    rng = np.random.default_rng(random.randint(0, 2**32 - 1))
    data = [values(rng, b.static_shape, b.dtype) for b in maker.inputs]
    return func, [*data, rng.integers(0, 7, 9)]


def writes_constant(func: PrimFunc) -> bool:
    """Whether a function is ill-formed, but for that well-formed, because it writes a constant: a run of it traps."""
    try:
        check_prim_func(func)
    except Invalid as wrong:
        assert wrong.label == "tensor.C26"
        return True
    return False

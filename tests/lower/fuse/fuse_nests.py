"""Statements as the calls of a group leave them, for the tests of merging: random ones, and how to run them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np

from assay.interp import tensor
from assay.lower.fuse.nests import touched
from assay.semantics.dtypes import FLOAT32, INT64
from assay.semantics.scalar import Expr, Var, apply, cast, const
from assay.semantics.tensor import Allocate, Buffer, For, LetStmt, PrimFunc, Stmt, seq, store, when

F = FLOAT32
SHAPES = ((3,), (2, 3), (3, 3), (1, 3))
INPUTS = tuple(Buffer(f"a{k}", s, F) for k, s in enumerate(SHAPES))


def run(statements: Sequence[Stmt], internal: Sequence[Buffer], out: Buffer) -> bytes:
    """The bytes of `out` after the statements; inputs are small whole numbers, no two alike in one tensor."""
    used = {b for s in statements for some in touched(s) for b in some}
    body = seq(*statements)
    for b in internal:
        body = Allocate(b, body) if b in used else body
    func = PrimFunc("group", (*INPUTS, out), 1, body)
    given = [
        np.random.default_rng(k).permutation(int(np.prod(s))).reshape(s).astype(np.float32)
        for k, s in enumerate(SHAPES)
    ]
    (result,) = tensor.run(func, given)
    return bytes(result.tobytes())


class Maker:
    """Calls one after another: each writes all of a new value, from inputs and earlier values."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.values: list[Buffer] = list(INPUTS)

    def group(self, calls: int) -> tuple[list[Stmt], list[Buffer], Buffer]:
        """Statements, the values between the calls, and the result."""
        statements: list[Stmt] = []
        made: list[Buffer] = []
        for k in range(calls):
            buffer = Buffer(f"t{k}", self.one(SHAPES), F)
            statements += self.call(buffer)
            self.values.append(buffer)
            made.append(buffer)
        return statements, made[:-1], made[-1]

    def one(self, some: Sequence[Any]) -> Any:
        return some[self.random.randrange(len(some))]

    def chance(self, of: int) -> bool:
        return self.random.randrange(of) == 0

    def nest(self, shape: Sequence[int], body: Callable[[list[Var]], Stmt]) -> Stmt:
        names = [Var(n, INT64) for n in "ij"[: len(shape)]]
        stmt = body(names)
        pairs = list(zip(names, shape, strict=True))
        if self.chance(4):
            pairs.reverse()
        for v, n in pairs:
            stmt = For(v, const(n), stmt, "serial")
        return stmt

    def call(self, b: Buffer) -> list[Stmt]:
        shape = b.static_shape
        plain = self.nest(shape, lambda v: store(b, tuple(v), self.value(v, shape)))
        if self.chance(6):  # the other way round
            plain = self.nest(
                shape,
                lambda v: store(
                    b, tuple(const(n - 1) - x for x, n in zip(v, shape, strict=True)), self.value(v, shape)
                ),
            )
        if self.chance(6):  # once more for nothing
            plain = self.nest(
                shape, lambda v: For(Var("k", INT64), const(2), store(b, tuple(v), self.value(v, shape)), "serial")
            )
        match self.random.randrange(8):
            case 0:  # a sum along one more loop
                k = Var("k", INT64)
                add = self.nest(
                    shape,
                    lambda v: For(
                        k, const(3), store(b, tuple(v), b[tuple(v)] + self.load([*v, k], (*shape, 3))), "serial"
                    ),
                )
                return [self.nest(shape, lambda v: store(b, tuple(v), const(0, F))), add]
            case 1:  # what was computed, once more
                return [plain, self.nest(shape, lambda v: store(b, tuple(v), b[tuple(v)] * 3.0 + self.load(v, shape)))]
            case 2:  # some elements of it again
                return [
                    plain,
                    self.nest(
                        shape, lambda v: when(apply("lt", v[-1], const(2)), store(b, tuple(v), self.value(v, shape)))
                    ),
                ]
            case 3:  # two stores in one nest
                return [
                    self.nest(
                        shape,
                        lambda v: seq(
                            store(b, tuple(v), self.value(v, shape)),
                            store(b, tuple(v), b[tuple(v)] + self.value(v, shape)),
                        ),
                    )
                ]
            case 4:  # by parts
                last = shape[-1] - 1
                first = self.nest((*shape[:-1], last), lambda v: store(b, tuple(v), self.value(v, shape)))
                return [
                    first,
                    self.nest((*shape[:-1], 1), lambda v: store(b, (*v[:-1], v[-1] + last), self.value(v, shape))),
                ]
            case 5:  # a name for a value

                def named(v: list[Var]) -> Stmt:
                    name = Var("w", F)
                    return LetStmt(name, self.value(v, shape), store(b, tuple(v), name * 2.0 + name))

                return [self.nest(shape, named)]
            case 6:  # where values say

                def scattered(v: list[Var]) -> Stmt:
                    places = [apply("floormod", cast(self.load(v, shape), INT64), const(n)) for n in shape]
                    return store(b, tuple(places), self.value(v, shape))

                return [plain, self.nest(shape, scattered)]
            case _:
                return [plain]

    def value(self, v: Sequence[Var], shape: Sequence[int]) -> Expr:
        one = self.load(v, shape)
        return one if self.chance(4) else one * 2.0 + self.load(v, shape)

    def load(self, v: Sequence[Var], sizes: Sequence[int]) -> Expr:
        """An element of some value: at the loops' own variables if it can be, or anywhere."""
        b = self.one(self.values[-3:] if self.chance(2) else self.values)
        own = list(v)[-len(b.shape) :]
        if (
            len(own) == len(b.shape)
            and all(n <= d for n, d in zip(sizes[-len(own) :], b.static_shape, strict=True))
            and not self.chance(3)
        ):
            return b[tuple(own)]
        return b[tuple(self.index(v, sizes, d) for d in b.static_shape)]

    def index(self, v: Sequence[Var], sizes: Sequence[int], size: int) -> Expr:
        fit = [x for x, n in zip(v, sizes, strict=True) if n <= size]
        match self.random.randrange(4):
            case 0 if fit:
                return self.one(fit)
            case 1 if fit:
                return const(size - 1) - self.one(fit)
            case 2 if self.chance(3):
                return apply("floormod", cast(INPUTS[0][const(self.random.randrange(3))], INT64), const(size))
            case _:
                return const(self.random.randrange(size))

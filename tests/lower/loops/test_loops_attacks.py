"""Schedule primitives on programs made to break them: narrow extents, memory in extents, guards, lanes, private memory.

What a primitive makes runs as the source does by the definition; else it refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from assay.interp import tensor
from assay.lower.loops import Schedule, schedule
from assay.semantics.dtypes import DTYPES, FLOAT32, INT64, DType
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.scalar import Expr, Var, apply, cast, const
from assay.semantics.tensor import Allocate, Block, Buffer, For, LoopKind, PrimFunc, Stmt, loops, seq, store, when

F, INT8 = FLOAT32, DTYPES["int8"]
Step = Callable[[Schedule], Schedule]
X = Buffer("x", (8,), F)
OUT = Buffer("out", (8,), F)
GRID, GRID_OUT = Buffer("x", (4, 4, 4), F), Buffer("out", (4, 4, 4), F)


def loop(
    name: str, extent: Expr | int, body: Callable[[Var], Stmt], kind: LoopKind = "serial", of: DType = INT64
) -> For:
    var = Var(name, of)
    return For(var, const(extent) if isinstance(extent, int) else extent, body(var), kind)


def line(*body: Stmt, scalars: tuple[Var, ...] = ()) -> PrimFunc:
    """`out` is filled with zeros first."""
    zeros = loops("z", (8,), lambda i: store(OUT, i, const(0, F)))
    return PrimFunc("line", (X, OUT), 1, seq(zeros, *body), scalars=scalars)


def counted(*body: Callable[[Buffer], Stmt]) -> PrimFunc:
    """A number of iterations stands in memory: three at first."""
    count = Buffer("count", (1,), INT64)
    return line(Allocate(count, seq(store(count, 0, const(3)), *(make(count) for make in body))))


def grid(step: Stmt) -> PrimFunc:
    fill = loops("p q r", (4, 4, 4), lambda *p: store(GRID_OUT, p, GRID[p]))
    return PrimFunc("grid", (GRID, GRID_OUT), 1, seq(fill, step))


def recount(to: int, then: Callable[[Var], Stmt] | None = None) -> Callable[[Buffer], Stmt]:
    """A loop as often as memory says, which changes what memory says."""

    def make(count: Buffer) -> Stmt:
        first = store(count, 0, const(to))
        return loop("i", count[0], lambda i: seq(first, then(i)) if then is not None else first)

    return make


def copy(i: Expr) -> Stmt:
    return store(OUT, i, X[i])


N, M, NARROW = Var("n", INT64), Var("m", INT64), Var("k", INT8)


def around_division() -> PrimFunc:
    """The extent of the inner loop has no value where m is 0; with n = 0 nobody asks."""
    return line(loop("i", N, lambda i: loop("j", apply("floordiv", const(4), M), copy)), scalars=(N, M))


def narrow(body: Callable[[Var], Stmt]) -> PrimFunc:
    return line(loop("i", NARROW, body), scalars=(NARROW,))


def guarded() -> PrimFunc:
    def body(k: Var) -> Stmt:
        return loop("i", 8, lambda i: when(k < 2, store(OUT, i, X[i] + cast(k, F))))

    return line(loop("k", 4, body))


def overwritten() -> PrimFunc:
    """Stored to under a condition, read, then stored to for sure, all at the same index."""
    t = Buffer("t", (8,), F)
    body = loop(
        "k", 8, lambda k: seq(when(X[k] > 3.0, store(OUT, k, X[k])), store(t, k, OUT[k]), store(OUT, k, t[k] + 1.0))
    )
    return line(Allocate(t, body))


def private() -> PrimFunc:
    own = Buffer("own", (8,), F, "local")
    return line(
        Allocate(own, seq(loop("i", 8, lambda i: store(own, i, X[i])), loop("j", 8, lambda j: store(OUT, j, own[j]))))
    )


def private_in_a_block() -> PrimFunc:
    """A block leaves open where its buffer begins, so a parallel loop may store to it."""
    own = Buffer("own", (8,), F, "local")
    body = seq(loop("i", 8, lambda i: store(own, i, X[i]), "parallel"), loop("j", 8, lambda j: store(OUT, j, own[j])))
    return PrimFunc("private", (X, OUT), 1, Block("root", (), body, allocated=(own,)))


def lanes_in_lanes() -> PrimFunc:
    def step(i: Var, j: Var) -> Stmt:
        return store(GRID_OUT, (i + 1, j + 1, 0), GRID_OUT[i, j, 0] * 2.0)

    return grid(loop("i", 3, lambda i: loop("j", 3, lambda j: step(i, j), "vectorized"), "vectorized"))


def lanes_around() -> PrimFunc:
    """Lane v reads what lane v - 1 wrote in an earlier step."""

    def step(v: Var, i: Var, j: Var) -> Stmt:
        return store(GRID_OUT, (v + 1, i + 1, j), GRID_OUT[v, i, j + 1])

    return grid(loop("v", 3, lambda v: loop("i", 3, lambda i: loop("j", 3, lambda j: step(v, i, j))), "vectorized"))


def lanes_in_turn() -> PrimFunc:
    def step(v: Var, i: Var) -> Stmt:
        return seq(store(GRID_OUT, (v, i, 3), GRID_OUT[v, i, 0]), store(GRID_OUT, (v + 1, i + 1, 0), GRID[v, i, 1]))

    return grid(loop("v", 3, lambda v: loop("i", 3, lambda i: step(v, i)), "vectorized"))


CASES: dict[str, tuple[Callable[[], PrimFunc], Step, tuple[int, ...], str]] = {
    "merge: the first loop changes the extent of the second": (
        lambda: counted(recount(5), lambda c: loop("j", c[0], copy)),
        lambda s: s.merge("i", "j"), (), "loops.C4",
    ),
    "fission: the body changes the extent": (lambda: counted(recount(5, copy)), lambda s: s.fission("i"), (), ""),
    "peel: the body changes the extent": (lambda: counted(recount(5, copy)), lambda s: s.peel("i", 1), (), ""),
    "split: the body changes the extent": (lambda: counted(recount(1, copy)), lambda s: s.split("i", 4), (), ""),
    "fuse: the body changes the inner extent": (
        lambda: counted(lambda c: loop("h", 2, lambda h: recount(2, lambda j: store(OUT, h * 3 + j, X[j]))(c))),
        lambda s: s.fuse("h", "i"), (), "loops.C4",
    ),
    "fuse: the inner extent may trap": (around_division, lambda s: s.fuse("i", "j"), (0, 0), "loops.C4"),
    "reorder: the inner extent may trap": (around_division, lambda s: s.reorder("j", "i"), (0, 0), "loops.C4"),
    "split: an extent of int8": (lambda: narrow(lambda i: copy(i % 8)), lambda s: s.split("i", 16), (120,), ""),
    "split by more than an int8": (lambda: narrow(lambda i: copy(i % 8)), lambda s: s.split("i", 300), (120,), ""),
    "peel of more than an int8": (lambda: narrow(lambda i: copy(i % 8)), lambda s: s.peel("i", 300), (120,), ""),
    "fuse: an extent of int8": (
        lambda: narrow(lambda i: loop("j", 2, lambda j: store(OUT, (i * 2 + j) % 8, X[i % 8]))),
        lambda s: s.fuse("i", "j"), (100,), "",
    ),
    "fuse: an extent of int8 that is known": (
        lambda: line(loop("i", const(100, INT8), lambda i: loop("j", 2, lambda j: copy((i + j) % 8)))),
        lambda s: s.fuse("i", "j"), (), "",
    ),
    "cache_write: a guard that holds in some iterations": (guarded, lambda s: s.cache_write("out", "k"), (),
        "loops.C10"),
    "cache_write: a later store at the same index": (overwritten, lambda s: s.cache_write("out", "k"), (), "loops.C10"),
    "cache_read: a remainder that a guard makes a box": (
        lambda: line(loop("k", 4, lambda k: loop("i", 8, lambda i: when(i < 4, store(OUT, i, X[i % 4]))))),
        lambda s: s.cache_read("x", "k"), (), "loops.C10",
    ),
    "rfactor of no iterations": (
        lambda: PrimFunc("f", (X, OUT), 1,
            seq(loop("k", N, lambda k: store(OUT, 0, OUT[0] + X[k])), loop("i", 8, copy)), scalars=(N,)),
        lambda s: s.rfactor("k", 4), (0,), "",
    ),
    "rfactor of a known loop of no iterations": (
        lambda: PrimFunc("f", (X, OUT), 1,
            seq(loop("k", 0, lambda k: store(OUT, 0, OUT[0] + X[k])), loop("i", 8, copy))),
        lambda s: s.rfactor("k", 4), (), "",
    ),
    "parallel: memory of one thread": (private, lambda s: s.parallelize("i"), (), "loops.C9"),
    "cache_write: memory of one thread": (
        lambda: line(loop("i", 2, lambda i: loop("j", 4, lambda j: copy(i * 4 + j), "parallel"))),
        lambda s: s.cache_write("out", "i", "local"), (), "loops.C9",
    ),
    "split: memory of one thread that a block allocates": (private_in_a_block, lambda s: s.split("i", 3), (), ""),
    "merge: no loops inside": (
        lambda: line(loop("i", 8, copy), loop("j", 8, copy)), lambda s: s.merge("i", "j", 2), (), "loops.C4",
    ),
    "fuse of lanes in lanes": (lanes_in_lanes, lambda s: s.fuse("i", "j"), (), ""),
    "reorder within lanes": (lanes_around, lambda s: s.reorder("j", "i"), (), ""),
    "fission within lanes": (lanes_in_turn, lambda s: s.fission("i"), (), ""),
}  # fmt: skip


def run(func: PrimFunc, numbers: tuple[int, ...]) -> list[Any]:
    inputs = [np.arange(np.prod(b.static_shape), dtype=np.float32).reshape(b.static_shape) for b in func.inputs]
    scalars = [v.dtype.numpy.type(n) for v, n in zip(func.scalars, numbers, strict=True)]
    return [out.tolist() for out in tensor.run(func, inputs, scalars=scalars)]


@pytest.mark.parametrize("name", CASES)
def test_what_runs_stays_as_it_is(name: str) -> None:
    make, step, numbers, label = CASES[name]
    source = make()
    was = run(source, numbers)
    if label:
        with pytest.raises((Invalid, Unsupported)) as refusal:
            step(schedule(source))
        assert refusal.value.label == label
    else:
        assert run(step(schedule(source)).func, numbers) == was

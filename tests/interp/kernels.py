"""Hand-written tensor functions of the kinds that a lowering makes, with dims that differ pairwise."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from assay.semantics.dtypes import BOOL, FLOAT32, INT64, DType
from assay.semantics.scalar import Expr, Var, apply, cast, const, select
from assay.semantics.tensor import (
    Allocate,
    AllocateConst,
    Buffer,
    For,
    LetStmt,
    PrimFunc,
    Seq,
    Stmt,
    While,
    loops,
    seq,
    store,
    when,
)


def zero(of: DType) -> Expr:
    return const(0, of)


def matmul(n: int = 5, m: int = 7, k: int = 6, of: DType = FLOAT32) -> PrimFunc:
    a, b, c = Buffer("a", (n, k), of), Buffer("b", (k, m), of), Buffer("c", (n, m), of)

    def row(i: Expr) -> Stmt:
        return seq(
            loops("j", (m,), lambda j: store(c, (i, j), zero(of))),
            loops("k j", (k, m), lambda q, j: store(c, (i, j), c[i, j] + a[i, q] * b[q, j])),
        )

    return PrimFunc("matmul", (a, b, c), 1, loops("i", (n,), row, kind="parallel"))


def dot_last(n: int = 4, m: int = 5, k: int = 7) -> PrimFunc:
    """A matmul whose reduction is the innermost loop, with the initial value under a guard."""
    of = FLOAT32
    a, b, c = Buffer("a", (n, k), of), Buffer("b", (m, k), of), Buffer("c", (n, m), of)
    body = loops(
        "i j k",
        (n, m, k),
        lambda i, j, q: seq(
            when(apply("eq", q, 0), store(c, (i, j), zero(of))), store(c, (i, j), c[i, j] + a[i, q] * b[j, q])
        ),
    )
    return PrimFunc("dot_last", (a, b, c), 1, body)


def conv2d(
    n: int = 2, c: int = 4, o: int = 6, h: int = 7, w: int = 8, k: int = 3, stride: int = 2, dilation: int = 1,
    groups: int = 2, of: DType = FLOAT32,
) -> PrimFunc:  # fmt: skip
    """Padded by a fill and a copy, grouped, strided; initialised and accumulated channel by channel."""
    p = (k - 1) * dilation // 2
    hp, wp = h + 2 * p, w + 2 * p
    oh, ow = (hp - (k - 1) * dilation - 1) // stride + 1, (wp - (k - 1) * dilation - 1) // stride + 1
    per = c // groups
    x, wt = Buffer("x", (n, c, h, w), of), Buffer("w", (o, per, k, k), of)
    out, padded = Buffer("out", (n, o, oh, ow), of), Buffer("padded", (n, c, hp, wp), of)
    fill = loops("n c y x", padded.shape, lambda *i: store(padded, i, zero(of)), kind="parallel")
    copy = loops(
        "n c y x", x.shape, lambda b, ch, y, z: store(padded, (b, ch, y + p, z + p), x[b, ch, y, z]), kind="parallel"
    )

    def channel(b: Expr, f: Expr) -> Stmt:
        def step(ch: Expr, ky: Expr, kx: Expr, y: Expr, z: Expr) -> Stmt:
            at = padded[b, f // (o // groups) * per + ch, y * stride + ky * dilation, z * stride + kx * dilation]
            return store(out, (b, f, y, z), out[b, f, y, z] + at * wt[f, ch, ky, kx])

        return seq(
            loops("y x", (oh, ow), lambda y, z: store(out, (b, f, y, z), zero(of))),
            loops("c ky kx y x", (per, k, k, oh, ow), step),
        )

    body = Seq((fill, copy, loops("n o", (n, o), channel, kind="parallel")))
    return PrimFunc("conv2d", (x, wt, out), 1, Allocate(padded, body))


def max_pool(of: DType = FLOAT32) -> PrimFunc:
    x, out = Buffer("x", (2, 9, 8), of), Buffer("out", (2, 4, 3), of)
    start = const(float("-inf"), of) if of.is_float else const(of.min, of)
    body = seq(
        loops("c y x", out.shape, lambda *i: store(out, i, start), kind="parallel"),
        loops(
            "c ky kx y x",
            (2, 3, 3, 4, 3),
            lambda c, ky, kx, y, z: store(out, (c, y, z), apply("max", out[c, y, z], x[c, y * 2 + ky, z * 2 + kx])),
        ),
    )
    return PrimFunc("max_pool", (x, out), 1, body)


def softmax() -> PrimFunc:
    of = FLOAT32
    x, out = Buffer("x", (5, 7), of), Buffer("out", (5, 7), of)
    top, total = Buffer("top", (5,), of), Buffer("total", (5,), of)

    def row(i: Expr) -> Stmt:
        return seq(
            store(top, i, const(float("-inf"), of)),
            loops("j", (7,), lambda j: store(top, i, apply("max", top[i], x[i, j]))),
            store(total, i, zero(of)),
            loops(
                "j",
                (7,),
                lambda j: seq(
                    store(out, (i, j), apply("exp", x[i, j] - top[i])), store(total, i, total[i] + out[i, j])
                ),
            ),
            loops("j", (7,), lambda j: store(out, (i, j), out[i, j] / total[i])),
        )

    body = Allocate(top, Allocate(total, loops("i", (5,), row, kind="parallel")))
    return PrimFunc("softmax", (x, out), 1, body)


def row_norm() -> PrimFunc:
    """Workspace that each row allocates for itself."""
    of = FLOAT32
    x, out, tmp = Buffer("x", (6, 4), of), Buffer("out", (6, 4), of), Buffer("tmp", (4,), of)

    def row(i: Expr) -> Stmt:
        return Allocate(
            tmp,
            seq(
                loops("j", (4,), lambda j: store(tmp, j, x[i, j] * x[i, j])),
                loops("j", (3,), lambda j: store(tmp, j + 1, tmp[j + 1] + tmp[j])),
                loops("j", (4,), lambda j: store(out, (i, j), x[i, j] / apply("sqrt", tmp[3]))),
            ),
        )

    return PrimFunc("row_norm", (x, out), 1, loops("i", (6,), row, kind="parallel"))


def take() -> PrimFunc:
    """Rows by index, counted from the end if negative."""
    x, idx, out = Buffer("x", (6, 5), FLOAT32), Buffer("idx", (4,), INT64), Buffer("out", (4, 5), FLOAT32)

    def element(i: Expr, j: Expr) -> Stmt:
        at = select(idx[i] < 0, idx[i] + 6, idx[i])
        return store(out, (i, j), x[at, j])

    return PrimFunc("take", (x, idx, out), 1, loops("i j", (4, 5), element, kind="parallel"))


def split() -> PrimFunc:
    x = Buffer("x", (7, 4), FLOAT32)
    a, b = Buffer("a", (3, 4), FLOAT32), Buffer("b", (4, 4), FLOAT32)
    body = seq(
        loops("i j", a.shape, lambda i, j: store(a, (i, j), x[i, j]), kind="parallel"),
        loops("i j", b.shape, lambda i, j: store(b, (i, j), x[i + 3, j]), kind="parallel"),
    )
    return PrimFunc("split", (x, a, b), 2, body)


def concat() -> PrimFunc:
    a, b, out = Buffer("a", (3, 4), FLOAT32), Buffer("b", (5, 4), FLOAT32), Buffer("out", (8, 4), FLOAT32)
    body = seq(
        loops("i j", a.shape, lambda i, j: store(out, (i, j), a[i, j]), kind="parallel"),
        loops("i j", b.shape, lambda i, j: store(out, (i + 3, j), b[i, j]), kind="parallel"),
    )
    return PrimFunc("concat", (a, b, out), 1, body)


def reflect_pad() -> PrimFunc:
    x, out = Buffer("x", (6,), FLOAT32), Buffer("out", (10,), FLOAT32)

    def element(i: Expr) -> Stmt:
        k = apply("abs", i - 2)
        return store(out, i, x[apply("min", k, const(10) - k)])

    return PrimFunc("reflect_pad", (x, out), 1, loops("i", (10,), element, kind="parallel"))


def flatten_tiled() -> PrimFunc:
    """One loop over all elements, its variable taken apart, in tiles."""
    x, out = Buffer("x", (3, 4, 5), FLOAT32), Buffer("out", (60,), FLOAT32)

    def element(t: Expr, u: Expr) -> Stmt:
        i = t * 6 + u
        return store(out, i, x[i // 20, i // 5 % 4, i % 5] + 1.0)

    return PrimFunc("flatten_tiled", (x, out), 1, loops("t u", (10, 6), element, kind="parallel"))


def guarded_tiles() -> PrimFunc:
    x, out = Buffer("x", (10, 3), FLOAT32), Buffer("out", (10, 3), FLOAT32)

    def tile(t: Expr, u: Expr) -> Stmt:
        i = t * 4 + u
        return when(i < 10, loops("j", (3,), lambda j: store(out, (i, j), x[i, j] * 2.0)))

    return PrimFunc("guarded_tiles", (x, out), 1, loops("t u", (3, 4), tile, kind="parallel"))


def triangular() -> PrimFunc:
    """Sums along the rows of the lower triangle, above which there are zeros."""
    x, out = Buffer("x", (6, 6), FLOAT32), Buffer("out", (6, 6), FLOAT32)
    i, j = Var("i"), Var("j")
    inner = For(j, i + 1, store(out, (i, j), x[i, j] + out[i, j]))
    body = seq(loops("i j", out.shape, lambda a, b: store(out, (a, b), zero(FLOAT32))), For(i, const(6), inner))
    return PrimFunc("triangular", (x, out), 1, body)


def triangular_sum() -> PrimFunc:
    """Rows of different length, each summed in order."""
    x, out = Buffer("x", (6, 6), FLOAT32), Buffer("out", (6,), FLOAT32)
    i, j = Var("i"), Var("j")
    inner = For(j, i + 1, store(out, i, out[i] + x[i, j]))
    return PrimFunc("triangular_sum", (x, out), 1, For(i, const(6), seq(store(out, i, zero(FLOAT32)), inner)))


def prefix_sum() -> PrimFunc:
    """Each element needs the one before: the loop over columns must stay a loop."""
    x, out = Buffer("x", (4, 6), FLOAT32), Buffer("out", (4, 6), FLOAT32)

    def row(i: Expr) -> Stmt:
        return seq(
            store(out, (i, 0), x[i, 0]),
            loops("j", (5,), lambda j: store(out, (i, j + 1), out[i, j] + x[i, j + 1])),
        )

    return PrimFunc("prefix_sum", (x, out), 1, loops("i", (4,), row, kind="parallel"))


def reverse_in_place() -> PrimFunc:
    """Later iterations read what earlier ones wrote."""
    x, out = Buffer("x", (7,), FLOAT32), Buffer("out", (7,), FLOAT32)
    body = seq(
        loops("i", (7,), lambda i: store(out, i, x[i])),
        loops("i", (7,), lambda i: store(out, i, out[const(6) - i] + 1.0)),
    )
    return PrimFunc("reverse_in_place", (x, out), 1, body)


def collatz() -> PrimFunc:
    """A while loop that each lane leaves at another time."""
    x, out, n = Buffer("x", (9,), INT64), Buffer("out", (9,), INT64), Buffer("n", (), INT64)

    def element(i: Expr) -> Stmt:
        half = select(apply("eq", n[()] % 2, 0), n[()] // 2, n[()] * 3 + 1)
        step = seq(store(n, (), half), store(out, i, out[i] + 1))
        start = seq(store(n, (), apply("abs", x[i] % 30) + 1), store(out, i, const(0)))
        count = seq(start, While(apply("ne", n[()], 1), step), store(out, i, out[i] * 10 + n[()]))
        return Allocate(n, when(x[i] % 3 > 0, count, store(out, i, const(-1))))

    return PrimFunc("collatz", (x, out), 1, loops("i", (9,), element, kind="parallel"))


def own_flag() -> PrimFunc:
    """A condition on a workspace that each lane has for itself."""
    x, out, flag = Buffer("x", (7,), FLOAT32), Buffer("out", (7,), FLOAT32), Buffer("flag", (), BOOL)

    def element(i: Expr) -> Stmt:
        decide = when(flag[()], store(out, i, x[i]), store(out, i, -x[i]))
        return Allocate(flag, seq(store(flag, (), x[i] > 0.0), decide))

    return PrimFunc("own_flag", (x, out), 1, loops("i", (7,), element, kind="parallel"))


def decided_guards() -> PrimFunc:
    """Guards that hold everywhere or nowhere, each with another branch."""
    x, out = Buffer("x", (8, 3), FLOAT32), Buffer("out", (8, 3), FLOAT32)

    def element(t: Expr, u: Expr, j: Expr) -> Stmt:
        i = t * 4 + u
        wrong = store(out, (i, j), x[i, j] + 1.0)
        again = store(out, (i, j), out[i, j] * 3.0)
        return seq(when(i < 8, store(out, (i, j), x[i, j]), wrong), when(i >= 8, wrong, again), when(j < 0, wrong))

    return PrimFunc("decided_guards", (x, out), 1, loops("t u j", (2, 4, 3), element, kind="parallel"))


def table_inside() -> PrimFunc:
    """A constant that begins inside a parallel loop is one for all lanes."""
    idx, out, lookup = Buffer("idx", (4, 6), INT64), Buffer("out", (4, 6), FLOAT32), Buffer("lookup", (5,), FLOAT32)
    data = np.arange(5, dtype=np.float32) / 3

    def row(i: Expr) -> Stmt:
        inner = loops("j", (6,), lambda j: store(out, (i, j), lookup[idx[i, j] % 5]))
        return AllocateConst(lookup, data, inner)

    return PrimFunc("table_inside", (idx, out), 1, loops("i", (4,), row, kind="parallel"))


def empty_then_guarded() -> PrimFunc:
    """A let in a loop that does not run, then control that differs between lanes."""
    x, out, n = Buffer("x", (6,), FLOAT32), Buffer("out", (6,), FLOAT32), Buffer("n", (), INT64)
    k, t = Var("k"), Var("t", FLOAT32)

    def element(i: Expr) -> Stmt:
        skipped = For(k, n[()] - n[()], LetStmt(t, out[i], store(out, i, t + t)))
        return seq(store(out, i, x[i]), skipped, when(x[i] > 0.0, store(out, i, x[i]), store(out, i, -x[i])))

    return PrimFunc("empty_then_guarded", (x, n, out), 1, loops("i", (6,), element, kind="parallel"))


def let_now() -> PrimFunc:
    """A let keeps the value of its moment: a swap of the halves of each row."""
    x, out = Buffer("x", (5, 6), FLOAT32), Buffer("out", (5, 6), FLOAT32)
    t = Var("t", FLOAT32)

    def element(i: Expr, j: Expr) -> Stmt:
        swap = seq(store(out, (i, j), out[i, j + 3]), store(out, (i, j + 3), t))
        return LetStmt(t, out[i, j], swap)

    body = seq(
        loops("i j", (5, 6), lambda i, j: store(out, (i, j), x[i, j])),
        loops("i j", (5, 3), element, kind="parallel"),
    )
    return PrimFunc("let_now", (x, out), 1, body)


def table() -> PrimFunc:
    """A constant of the function's own, looked up with clamped data; a condition on data."""
    x, out = Buffer("x", (8,), FLOAT32), Buffer("out", (8,), FLOAT32)
    lookup = Buffer("lookup", (4,), FLOAT32)
    data = np.array([0.5, -1.5, np.inf, 2.0], np.float32)

    def element(i: Expr) -> Stmt:
        clean = select(
            apply("eq", x[i], x[i]), apply("max", apply("min", x[i], const(3, FLOAT32)), zero(FLOAT32)), zero(FLOAT32)
        )
        return when(x[i] > 0.0, store(out, i, lookup[cast(clean, INT64)]), store(out, i, lookup[0]))

    return PrimFunc("table", (x, out), 1, AllocateConst(lookup, data, loops("i", (8,), element)))


def logic() -> PrimFunc:
    a, b, out = Buffer("a", (3, 5), BOOL), Buffer("b", (5,), BOOL), Buffer("out", (3, 5), BOOL)

    def element(i: Expr, j: Expr) -> Stmt:
        either = apply("or", apply("and", a[i, j], b[j]), apply("not", apply("ne", a[i, j], b[j])))
        return store(out, (i, j), either)

    return PrimFunc("logic", (a, b, out), 1, loops("i j", (3, 5), element, kind="parallel"))


LOOPS_LEFT: dict[Callable[..., PrimFunc], int] = {
    matmul: 1, dot_last: 1, conv2d: 3, max_pool: 2, softmax: 2, row_norm: 1, take: 0, split: 0, concat: 0,
    reflect_pad: 0, flatten_tiled: 0, guarded_tiles: 0, triangular: 1, triangular_sum: 0, prefix_sum: 1,
    reverse_in_place: 1, collatz: 0, own_flag: 0, decided_guards: 0,
    table_inside: 0, empty_then_guarded: 1, let_now: 0, table: 0, logic: 0,
}  # fmt: skip
"""Each function, and how many Python loops its generated code should have: those that carry a value or order."""

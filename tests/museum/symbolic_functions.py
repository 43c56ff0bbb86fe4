"""Tensor functions over symbolic sizes, each right as it stands; arguments of a maker make it wrong by one."""

from __future__ import annotations

from assay.semantics.dtypes import FLOAT32, INT32, INT64
from assay.semantics.scalar import Expr, Load, Var, apply, both, cast, choice, const
from assay.semantics.tensor import (
    Alias,
    Allocate,
    Assert,
    Block,
    Buffer,
    For,
    IterVar,
    LoopKind,
    PrimFunc,
    Region,
    Stmt,
    Store,
    View,
    loops,
    seq,
    store,
    when,
)

F = FLOAT32
N, M, K = Var("n"), Var("m"), Var("k")
ZERO = const(0, F)


def buf(name: str, *shape: Expr | int) -> Buffer:
    return Buffer(name, shape, F)


def func(name: str, body: Stmt, *params: Buffer, outputs: int = 1) -> PrimFunc:
    return PrimFunc(name, params, outputs, body)


def ceil(a: Expr, by: Expr | int) -> Expr:
    return (a + (by - 1)) // by


def matmul(k_from: int = 0, init: bool = True, reduce_kind: LoopKind = "serial") -> PrimFunc:
    a, b, c = buf("a", N, K), buf("b", K, M), buf("c", N, M)

    def element(i: Expr, j: Expr) -> Stmt:
        add = loops("q", (K,), lambda q: store(c, (i, j), c[i, j] + a[i, q + k_from] * b[q, j]), reduce_kind)
        return seq(store(c, (i, j), ZERO), add) if init else add

    return func("matmul", loops("i j", (N, M), element, "parallel"), a, b, c)


def matmul_blocks(shift: int = 0, init: bool = True, predicate: bool = True, said: int = 0) -> PrimFunc:
    """Tiled, as TVM's blocks have it: a predicate for the ragged tail, `init` in the first reduction step."""
    a, b, c = buf("a", N, K), buf("b", K, M), buf("c", N, M)
    i, j, q = Var("vi"), Var("vj"), Var("vk")
    io, ii, jo, kk = Var("io"), Var("ii"), Var("jo"), Var("kk")
    body = store(c, (i, j), c[i, j] + a[i, q] * b[q, j])
    at = io * 8 + ii
    block = Block(
        "update",
        (IterVar(i, "spatial", N, at), IterVar(j, "spatial", M, jo), IterVar(q, "reduce", K, kk + shift)),
        body,
        store(c, (i, j), ZERO) if init else None,
        at < N if predicate else None,
        reads=(Region(a, (i + said, q), (None, None)), Region(b, (q, j), (None, None))),
        writes=(Region(c, (i, j), (None, None)),),
    )
    nest = For(io, ceil(N, 8), For(ii, const(8), For(jo, M, For(kk, K, block))), "parallel")
    return func("matmul_blocks", nest, a, b, c)


def tiled_matmul(guard: bool = True, tiles: int = 7, overlap: int = 8) -> PrimFunc:
    a, b, c = buf("a", N, K), buf("b", K, M), buf("c", N, M)

    def tile(io: Expr, jo: Expr) -> Stmt:
        def start(ii: Expr, jj: Expr) -> Stmt:
            i, j = io * overlap + ii, jo * 8 + jj
            return when(apply("and", i < N, j < M), store(c, (i, j), ZERO))

        def add(ko: Expr, ii: Expr, jj: Expr, kk: Expr) -> Stmt:
            i, j, q = io * overlap + ii, jo * 8 + jj, ko * 8 + kk
            inside = apply("and", i < N, j < M)
            inside = apply("and", inside, q < K) if guard else inside
            return when(inside, store(c, (i, j), c[i, j] + a[i, q] * b[q, j]))

        return seq(loops("ii jj", (8, 8), start), loops("ko ii jj kk", ((K + tiles) // 8, 8, 8, 8), add))

    return func("tiled_matmul", loops("io jo", ((N + tiles) // 8, ceil(M, 8)), tile, "parallel"), a, b, c)


def conv(before: int = 1, extra: int = 2, fill: bool = True, stride: int = 2) -> PrimFunc:
    """Padding written by a nest and overwritten by another; strided."""
    x, w, out, padded = (
        buf("x", K, N, M),
        buf("w", 3, 3),
        buf("out", K, ceil(N, 2), ceil(M, 2)),
        buf("padded", K, N + extra, M + 2),
    )

    def window(c: Expr, y: Expr, z: Expr) -> Stmt:
        def add(dy: Expr, dx: Expr) -> Stmt:
            return store(out, (c, y, z), out[c, y, z] + padded[c, y * stride + dy, z * 2 + dx] * w[dy, dx])

        return seq(store(out, (c, y, z), ZERO), loops("dy dx", (3, 3), add))

    copy = loops("c y z", x.shape, lambda c, y, z: store(padded, (c, y + before, z + 1), x[c, y, z]), "parallel")
    body = loops("c y z", out.shape, window, "parallel")
    fills = loops("c y z", padded.shape, lambda *i: store(padded, i, ZERO), "parallel")
    return func("conv", Allocate(padded, seq(fills, copy, body) if fill else seq(copy, body)), x, w, out)


def conv_guarded(low: int = 0, lazy: bool = True) -> PrimFunc:
    x, out = buf("x", N, M), buf("out", N, M)

    def element(y: Expr, z: Expr) -> Stmt:
        def add(dy: Expr, dx: Expr) -> Stmt:
            i, j = y + dy - 1, z + dx - 1
            inside = both(both(i >= low, i < N), both(j >= 0, j < M))
            value = choice(inside, x[i, j], ZERO)
            strict = apply("select", both(both(i >= 0, i < N), both(j >= 0, j < M)), x[i, j], ZERO)
            return store(out, (y, z), out[y, z] + (value if lazy else strict))

        return seq(store(out, (y, z), ZERO), loops("dy dx", (3, 3), add))

    return func("conv_guarded", loops("y z", (N, M), element, "parallel"), x, out)


def depthwise(channel: int = 0) -> PrimFunc:
    x, w, out = buf("x", K, N), buf("w", K, 3), buf("out", K, N - 2)

    def element(c: Expr, i: Expr) -> Stmt:
        add = loops("d", (3,), lambda d: store(out, (c, i), out[c, i] + x[c + channel, i + d] * w[c, d]))
        return seq(store(out, (c, i), ZERO), add)

    return func("depthwise", loops("c i", out.shape, element, "parallel"), x, w, out)


def pool(window: int = 3) -> PrimFunc:
    count = (N - 3) // 2 + 1
    x, out = buf("x", N), buf("out", count)

    def element(i: Expr) -> Stmt:
        most = loops("d", (window,), lambda d: store(out, i, apply("max", out[i], x[i * 2 + d])))
        return seq(store(out, i, ZERO), most)

    return func("pool", loops("i", (count,), element, "parallel"), x, out)


def fused(by: Expr = M, count: int = 0) -> PrimFunc:
    x, out = buf("x", N, M), buf("out", N, M)

    def element(f: Expr) -> Stmt:
        return store(out, (f // by, f % by), x[f // M, f % M])

    return func("fused", loops("f", (apply("mul", N, M) - count,), element, "parallel"), x, out)


def flatten(step: Expr = M) -> PrimFunc:
    x, out = buf("x", N, M), buf("out", apply("mul", N, M))  # type: ignore[arg-type]
    return func("flatten", loops("i j", (N, M), lambda i, j: store(out, i * step + j, x[i, j]), "parallel"), x, out)


def transpose(swap: bool = False) -> PrimFunc:
    x, out = buf("x", N, M), buf("out", M, N)
    move = lambda i, j: store(out, (i, j) if swap else (j, i), x[i, j])  # noqa: E731
    return func("transpose", loops("i j", (N, M), move, "parallel"), x, out)


def reverse(last: int = 1) -> PrimFunc:
    x, out = buf("x", N), buf("out", N)
    return func("reverse", loops("i", (N,), lambda i: store(out, N - i - last, x[i]), "parallel"), x, out)


def concat(at: int = 0, first: int = 0) -> PrimFunc:
    a, b, out = buf("a", N), buf("b", M), buf("out", N + M)
    one = loops("i", (N - first,), lambda i: store(out, i, a[i]), "parallel")
    return func("concat", seq(one, loops("i", (M,), lambda i: store(out, i + N + at, b[i]), "parallel")), a, b, out)


def triangular(above: int = 1, kind: LoopKind = "serial") -> PrimFunc:
    x, out = buf("x", N, N), buf("out", N, N)
    i, j, p, q = Var("i"), Var("j"), Var("p"), Var("q")
    lower = For(i, N, For(j, i + 1, store(out, (i, j), x[i, j])), "parallel")
    upper = For(p, N, For(q, N - p - 1, store(out, (p, p + q + above), ZERO), kind), "parallel")
    return func("triangular", seq(lower, upper), x, out)


def gather(check: str = "assert", strict: bool = True) -> PrimFunc:
    x, at, out = buf("x", N, M), Buffer("at", (K,), INT64), buf("out", K, M)

    def inside(i: Expr) -> Expr:
        return apply("and", at[i] >= 0, at[i] < N if strict else at[i] <= N)

    def row(i: Expr, j: Expr) -> Stmt:
        move = store(out, (i, j), x[at[i], j])
        return when(inside(i), move, store(out, (i, j), ZERO)) if check == "if" else move

    body = loops("i j", (K, M), row, "parallel")
    if check == "assert":
        body = seq(loops("i", (K,), lambda i: Assert(inside(i), "an index is outside", "out of bounds")), body)
    return func("gather", body, x, at, out)


def softmax(total_first: bool = True, short: int = 0) -> PrimFunc:
    """Three nests and two temporaries."""
    x, out, top, total = buf("x", N, M), buf("out", N, M), buf("top", N), buf("total", N)

    def largest(i: Expr) -> Stmt:
        return seq(store(top, i, ZERO), loops("j", (M,), lambda j: store(top, i, apply("max", top[i], x[i, j]))))

    def sums(i: Expr) -> Stmt:
        def add(j: Expr) -> Stmt:
            return seq(store(out, (i, j), apply("exp", x[i, j] - top[i])), store(total, i, total[i] + out[i, j]))

        adds = loops("j", (M - short,), add)
        return seq(store(total, i, ZERO), adds) if total_first else adds

    scale = loops("i j", (N, M), lambda i, j: store(out, (i, j), out[i, j] / total[i]), "parallel")
    body = seq(loops("i", (N,), largest, "parallel"), loops("i", (N,), sums, "parallel"), scale)
    return func("softmax", Allocate(top, Allocate(total, body)), x, out)


def layer_norm(private: bool = True) -> PrimFunc:
    """A temporary of each iteration's own."""
    x, out, mean = buf("x", N, M), buf("out", N, M), buf("mean", 1)

    def row(i: Expr) -> Stmt:
        add = loops("j", (M,), lambda j: store(mean, 0, mean[0] + x[i, j]))
        body = seq(store(mean, 0, ZERO), add, loops("j", (M,), lambda j: store(out, (i, j), x[i, j] - mean[0])))
        return Allocate(mean, body) if private else body

    nest = loops("i", (N,), row, "parallel")
    return func("layer_norm", nest if private else Allocate(mean, nest), x, out)


def in_place(ahead: int = 0, kind: LoopKind = "parallel") -> PrimFunc:
    """A buffer changed where it is; reading the next element is fine side by side, and the one before is not."""
    x, out = buf("x", N), buf("out", N)
    copy = loops("i", (N,), lambda i: store(out, i, x[i]), "parallel")
    change = loops("i", (N - 2,), lambda i: store(out, i + 1, out[i + 1] + out[i + 1 + ahead]), kind)
    return func("in_place", seq(copy, change), x, out)


def prefix(back: int = 1, first: bool = True) -> PrimFunc:
    x, out = buf("x", N, M), buf("out", N, M)

    def element(i: Expr, j: Expr) -> Stmt:
        go_on = store(out, (i, j), out[i, j - back] + x[i, j])
        return when(apply("eq", j, 0), store(out, (i, j), x[i, j]), go_on) if first else when(j >= 1, go_on)

    return func("prefix", loops("i j", (N, M), element), x, out)


def double_buffer(start: bool = True, read: int = 0) -> PrimFunc:
    x, out, two = buf("x", K, N), buf("out", N), buf("two", 2, N)
    begin = loops("i", (N,), lambda i: store(two, (0, i), ZERO), "parallel")

    def step(t: Expr) -> Stmt:
        return loops("i", (N,), lambda i: store(two, ((t + 1) % 2, i), two[(t + read) % 2, i] + x[t, i]), "parallel")

    end = loops("i", (N,), lambda i: store(out, i, two[K % 2, i]), "parallel")
    steps = loops("t", (K,), step)
    return func("double_buffer", Allocate(two, seq(begin, steps, end) if start else seq(steps, end)), x, out)


def rolling(rows: int = 3, since: int = 2) -> PrimFunc:
    """A window of rows: each is written once and read by the next two."""
    x, out, line = buf("x", N, M), buf("out", N - 2, M), buf("line", rows, M)

    def row(y: Expr) -> Stmt:
        take = loops("j", (M,), lambda j: store(line, (y % rows, j), x[y, j]))
        give = loops("j", (M,), lambda j: store(out, (y - 2, j), line[y % rows, j] + line[(y - since) % rows, j]))
        return seq(take, when(y >= 2, give))

    return func("rolling", Allocate(line, loops("y", (N,), row)), x, out)


def narrow() -> PrimFunc:
    """An index in 32 bits over sizes of 32 bits each."""
    n, m = Var("n", INT32), Var("m", INT32)
    x = Buffer("x", (cast(n, INT64) * cast(m, INT64),), F)
    like, out = Buffer("like", (n, m), F), Buffer("out", (n, m), F)
    i, j = Var("i", INT32), Var("j", INT32)
    body = For(i, n, For(j, m, Store(out, (i, j), Load(F, x, (i * m + j,)))))
    return func("narrow", body, like, x, out)


def symbolic_tile() -> PrimFunc:
    x, tile, out = buf("x", N), buf("tile", K), buf("out", N)

    def element(io: Expr, ii: Expr) -> Stmt:
        at = io * K + ii
        return when(at < N, store(out, at, x[at]))

    return func("symbolic_tile", loops("io ii", (ceil(N, K), K), element, "parallel"), x, tile, out)


def scratch(less: int = 0) -> PrimFunc:
    x, out, tmp = buf("x", N), buf("out", N), buf("tmp", N - less)
    first = loops("i", (N - less,), lambda i: store(tmp, i, x[i]))
    rest = loops("i", (less,), lambda i: store(out, N - i - 1, x[N - i - 1]))
    back = loops("i", (N - less,), lambda i: store(out, i, tmp[i]))
    return func("scratch", Allocate(tmp, seq(first, back, when(N >= less, rest))), x, out)


def row_view(rows: int = 0, step: Expr = M) -> PrimFunc:
    """All rows but the first, under another name."""
    x, out = buf("x", N, M), buf("out", N, M)
    part = buf("part", N - 1 + rows, M)
    body = loops("i j", part.shape, lambda i, j: store(part, (i, j), x[i + 1 - rows, j]), "parallel")
    head = loops("j", (M,), lambda j: store(out, (0, j), x[0, j]))
    return func("row_view", seq(head, Alias(View(part, out, M, (step, const(1))), body)), x, out)


def matched(stop: int = 0, size: int = 0) -> PrimFunc:
    """All rows but the first, as a match of that region."""
    x, out = buf("x", N, M), buf("out", N, M)
    part = buf("part", N - 1 + size, M)
    region = Region(out, (const(1), const(0)), (N + stop, M))
    body = loops("i j", (N - 1, M), lambda i, j: store(part, (i, j), x[i + 1, j]), "parallel")
    head = loops("j", (M,), lambda j: store(out, (0, j), x[0, j]))
    return func("matched", seq(head, Alias(View(part, out, M, (M, const(1)), region), body)), x, out)


def registers(inside: bool = True) -> PrimFunc:
    """Memory that is each thread's own."""
    x, out, tmp = buf("x", N), buf("out", N), Buffer("tmp", (1,), F, "local")

    def element(i: Expr) -> Stmt:
        body = seq(store(tmp, 0, x[i]), store(out, i, tmp[0]))
        return Allocate(tmp, body) if inside else body

    nest = loops("i", (N,), element, "parallel")
    return func("registers", nest if inside else Allocate(tmp, nest), x, out)


def placed(start: int = 4, step: int = 4, factor: int = 4, align: int = 16) -> PrimFunc:
    """A window on a window, each element of which begins where it must."""
    x, out = Buffer("x", (4 * N + 4,), F, notes={"align": "64"}), buf("out", N)
    rows = Buffer("rows", (4 * N,), F)
    part = Buffer("part", (4,), F, notes={"align": str(align), "offset_factor": str(factor)})

    def element(i: Expr) -> Stmt:
        return Alias(View(part, rows, i * step, (const(1),)), store(out, i, part[0]))

    return func(
        "placed", Alias(View(rows, x, const(start), (const(1),)), loops("i", (N,), element)), x, buf("like", N), out
    )


def read_only() -> PrimFunc:
    x, out = buf("x", N), buf("out", N)
    return func("read_only", loops("i", (N,), lambda i: seq(store(out, i, x[i]), store(x, i, ZERO))), x, out)


def halves(shift: int = 1) -> PrimFunc:
    """Quotients by data that is checked to be one or more, and shifts."""
    x, out = Buffer("x", (N,), INT64), Buffer("out", (N,), INT64)
    body = loops("i", (N,), lambda i: when(x[i] >= shift, store(out, i, 8 // x[i]), store(out, i, const(0))))
    return func("halves", body, x, out)

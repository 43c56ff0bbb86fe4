"""Faults inside tensor functions that simplifiers, storage rewrites and schedules have had (apache/tvm), each as what
the pass gives beside what it was given."""

from __future__ import annotations

from collections.abc import Callable

from assay.semantics.dtypes import FLOAT32, INT32
from assay.semantics.scalar import Expr, Var, apply, choice, const
from assay.semantics.tensor import (
    Alias,
    Allocate,
    Block,
    Buffer,
    For,
    IterVar,
    PrimFunc,
    Stmt,
    View,
    loops,
    seq,
    store,
    when,
)
from tests.museum.judges import fault
from tests.museum.planted import PlantedFault

F, INT = FLOAT32, INT32
N, M = Var("n"), Var("m")
ONE = const(1)
ZERO = const(0, F)


def func(body: Stmt, *params: Buffer) -> PrimFunc:
    return PrimFunc("f", params, 1, body)


def whole(value: Callable[[Buffer, Expr], Expr], extent: int = 8) -> PrimFunc:
    """out[i] = value(x, i), in whole numbers."""
    x, out = Buffer("x", (16,), INT), Buffer("out", (extent,), INT)
    return func(loops("i", (extent,), lambda i: store(out, i, value(x, i))), x, out)


def same(source: PrimFunc) -> PrimFunc:
    return source


# --- arithmetic ------------------------------------------------------------------------------------------------------


def remainder(x: Buffer, i: Expr) -> Expr:
    return x[i] - x[i + 1] % 2


def bent(x: Buffer, i: Expr) -> Expr:
    """The index is small at both ends and large between them."""
    return x[(i * (7 - i)) % 8]


def compared(x: Buffer, i: Expr) -> Expr:
    """A remainder of either sign beside a multiple of 4."""
    return choice(i // 4 * 4 + (i % 4 * 2 - 3) < 4, x[i], const(0, INT))


# --- storage ---------------------------------------------------------------------------------------------------------


def two_buffers(build: Callable[[Buffer, Buffer, Buffer, Buffer], Stmt]) -> PrimFunc:
    """Two buffers of 2 x 4 that live at the same time."""
    x, out = Buffer("x", (2, 4), F), Buffer("out", (2, 4), F)
    return func(build(x, out, Buffer("a", (2, 4), F), Buffer("b", (2, 4), F)), x, out)


def separate() -> PrimFunc:
    def build(x: Buffer, out: Buffer, a: Buffer, b: Buffer) -> Stmt:
        fill = loops("i j", (2, 4), lambda i, j: seq(store(a, (i, j), x[i, j] + 1.0), store(b, (i, j), x[i, j] * 2.0)))
        return Allocate(
            a, Allocate(b, seq(fill, loops("p q", (2, 4), lambda i, j: store(out, (i, j), a[i, j] + b[i, j]))))
        )

    return two_buffers(build)


def merged(row: int = 4, second: int = 8) -> Callable[[PrimFunc], PrimFunc]:
    """Both in one buffer of 16: rows are `row` apart, b begins at `second`."""

    def build(x: Buffer, out: Buffer, a: Buffer, b: Buffer) -> Stmt:
        one = Buffer("one", (16,), F)

        def at(i: Expr, j: Expr) -> Expr:
            return i * row + j

        fill = loops(
            "i j",
            (2, 4),
            lambda i, j: seq(store(one, at(i, j), x[i, j] + 1.0), store(one, at(i, j) + second, x[i, j] * 2.0)),
        )
        last = loops("p q", (2, 4), lambda i, j: store(out, (i, j), one[at(i, j)] + one[at(i, j) + second]))
        return Allocate(one, seq(fill, last))

    return lambda source: two_buffers(build)


def aliased(name: str = "a") -> PrimFunc:
    """A view of a buffer that is allocated; `name` says which buffer the view is of after merging."""
    x, out, a, v = Buffer("x", (4,), F), Buffer("out", (4,), F), Buffer("a", (4,), F), Buffer("v", (4,), F)
    kept = a if name == "a" else Buffer("pooled", (4,), F)
    use = Alias(View(v, a, const(0), (ONE,)), loops("j", (4,), lambda j: store(out, j, v[j])))
    return func(Allocate(kept, seq(loops("i", (4,), lambda i: store(kept, i, x[i])), use)), x, out)


def sized(size: Expr | int = N) -> PrimFunc:
    """A buffer of a size that is known on the run; a static one of 16 in its place is enough for some runs."""
    x, out, a = Buffer("x", (N,), F), Buffer("out", (N,), F), Buffer("a", (size,), F)
    fill = loops("i", (N,), lambda i: store(a, i, x[i]))
    return func(Allocate(a, seq(fill, loops("j", (N,), lambda j: store(out, j, a[j])))), x, out)


# --- schedules -------------------------------------------------------------------------------------------------------


def sums(inside: bool = False) -> PrimFunc:
    """Sums of rows through a buffer of one element, which is allocated outside the loop over the row, or inside it."""
    x, out, t = Buffer("x", (2, 4), F), Buffer("out", (2,), F), Buffer("t", (1,), F)
    i, k = Var("i"), Var("k")
    start, end = store(t, 0, ZERO), store(out, i, t[0])
    if inside:
        again = Allocate(t, seq(start, store(t, 0, t[0] + x[i, k]), end))
        return func(For(i, const(2), For(k, const(4), again)), x, out)
    add = For(k, const(4), store(t, 0, t[0] + x[i, k]))
    return func(For(i, const(2), Allocate(t, seq(start, add, end))), x, out)


def taken(row: Callable[[Expr], Expr]) -> PrimFunc:
    """out[i] = x[at[i]] where the index is one."""
    x, at, out = Buffer("x", (4,), F), Buffer("at", (3,), INT), Buffer("out", (3,), F)

    def element(i: Expr) -> Stmt:
        inside = apply("and", at[i] >= 0, at[i] < 4)
        return when(inside, store(out, i, x[row(at[i])]), store(out, i, ZERO))

    return func(loops("i", (3,), element), x, at, out)


def counted(nested: bool = True) -> PrimFunc:
    """A condition on what the body stores to: what held before need not hold after."""
    x, out = Buffer("x", (2,), INT), Buffer("out", (2,), INT)

    def element(i: Expr) -> Stmt:
        up = store(out, i, out[i] + 1)
        return seq(store(out, i, x[i]), when(out[i] < 4, seq(up, when(out[i] < 4, up) if nested else up)))

    return func(loops("i", (2,), element), x, out)


# --- sizes -----------------------------------------------------------------------------------------------------------


def sliced(clipped: bool = True) -> PrimFunc:
    """x[1 : m], where m may be beyond the end: the bound of the index is clipped, or only that of the loop."""
    x, like, out = Buffer("x", (N,), F), Buffer("like", (M,), F), Buffer("out", (M,), F)

    def element(i: Expr) -> Stmt:
        move = store(out, i, x[i])
        return when(i < N, move, store(out, i, ZERO)) if clipped else move

    return func(loops("i", (M,), element), x, like, out)


def halves(clamped: bool = True) -> PrimFunc:
    """The part of x from its third element on; a size below 2 has no such part."""
    x, out, t = (
        Buffer("x", (N,), F),
        Buffer("out", (N,), F),
        Buffer("t", (apply("max", N - 2, const(0)) if clamped else N - 2,), F),
    )
    rest = loops("j", (N - 2,), lambda j: seq(store(t, j, x[j + 2]), store(out, j, t[j])))
    return func(Allocate(t, seq(loops("i", (N,), lambda i: store(out, i, x[i])), rest)), x, out)


def over_nothing(apart: bool = True) -> PrimFunc:
    """A sum over m elements, of which there may be none: its first value is stored apart, or in the first step."""
    x, out = Buffer("x", (N, M), F), Buffer("out", (N,), F)
    i, k, io, kk = Var("vi"), Var("vk"), Var("io"), Var("kk")
    first = store(out, i, ZERO)
    add = store(out, i, out[i] + x[i, k])
    axes = IterVar(i, "spatial", N, io), IterVar(k, "reduce", M, kk)
    block = For(kk, M, Block("sum", axes, add, None if apart else first))
    return func(For(io, N, seq(store(out, io, ZERO), block) if apart else block), x, out)


def stretched(row: Callable[[Expr], Expr] = lambda i: i) -> PrimFunc:
    """x + y, of one symbolic size."""
    x, y, out = Buffer("x", (N, M), F), Buffer("y", (N, M), F), Buffer("out", (N, M), F)
    return func(loops("i j", (N, M), lambda i, j: store(out, (i, j), x[i, j] + y[row(i), j])), x, y, out)


FAULTS: tuple[PlantedFault, ...] = (
    fault("a quotient is moved out of the negative numbers, and overflows",
        "#18694", "equivalence", lambda: whole(lambda x, i: x[i] // 8), same,
        lambda f: whole(lambda x, i: apply("truncdiv", x[i] + const(2**31 - 8, INT), const(8, INT)) - const(2**28 - 1,
            INT)),
    ),
    fault("a quotient is rounded to zero",
        "", "equivalence", lambda: whole(lambda x, i: x[i] // 8), same,
        lambda f: whole(lambda x, i: apply("truncdiv", x[i], const(8, INT))),
    ),
    fault("a remainder of a negative changes sign",
        "#14571", "equivalence", lambda: whole(remainder), same,
        lambda f: whole(lambda x, i: x[i] + x[i + 1] % 2 - 1),
    ),
    fault("a remainder goes where both ends allow it",
        "#8616, #8852",
            "equivalence", lambda: whole(bent), lambda f: whole(lambda x, i: x[apply("bitand", i * (7 - i), const(7))]),
        lambda f: whole(lambda x, i: x[i * (7 - i)]),
    ),
    fault("a remainder of either sign is dropped from a comparison",
        "#18025", "equivalence", lambda: whole(compared), same,
        lambda f: whole(lambda x, i: choice(i // 4 < 1, x[i], const(0, INT))),
    ),
    fault("a condition stays true behind a store", "#20393, #16296", "equivalence", counted,
        same, lambda f: counted(False)),
    fault("an index is lost", "#20421", "equivalence", lambda: taken(lambda r: r),
        same, lambda f: taken(lambda r: const(0, INT))),
    fault("the buffer of a sum is allocated in its loop", "#17799", "equivalence", sums, same, lambda f: sums(True)),
    fault("small buffers that are merged overlap", "P#1012", "equivalence", separate, merged(), merged(second=4)),
    fault("rows of a merged buffer overlap", "P#10787", "equivalence", separate, merged(), merged(row=3)),
    fault("an offset is counted in vectors", "#8308, #8338", "equivalence", separate, merged(), merged(second=2)),
    fault("a view is of the buffer before merging",
        "P#12349, P#12655, P#12880, P#15044", "well-formed", aliased, same, lambda f: aliased("pooled")
    ),
    fault("a buffer of a size that the run tells gets a static place", "P#16216", "accesses, z3", sized,
        same, lambda f: sized(16)),
    fault("a slice clips its loop and not its index", "#20262", "accesses, z3", sliced, same, lambda f: sliced(False)),
    fault("a part of negative size", "#20307", "accesses, z3", halves, same, lambda f: halves(False)),
    fault("a sum over nothing is never begun", "#19578", "accesses, z3", over_nothing,
        same, lambda f: over_nothing(False)),
    fault("a symbolic dim is taken for 1 in a broadcast",
        "P#3967 (on P#3606)", "equivalence", stretched, same, lambda f: stretched(lambda i: const(0))
    ),
)  # fmt: skip

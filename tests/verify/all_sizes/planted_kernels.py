"""Kernels with and without planted faults, for the tests of proofs for all sizes (specs/verify.md, "For all sizes")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from assay.lower.legalize.kernels.common import Kernel, kernel, nest, padded
from assay.lower.legalize.kernels.elementwise import elementwise
from assay.semantics.dtypes import FLOAT32, FLOAT64
from assay.semantics.operator import Example
from assay.semantics.ops import OPERATORS
from assay.semantics.scalar import Expr, apply, as_expr, cast, const, select
from assay.semantics.tensor import Allocate, Assert, Buffer, Stmt, seq, store, when
from assay.verify.all_sizes.symbols import SymbolicUse, symbolic_use


def use_at(name: str, *shapes: tuple[int, ...], of: str = "float32", **attrs: Any) -> SymbolicUse:
    return symbolic_use(OPERATORS[name], Example(tuple((s, of) for s in shapes), attrs))


def one(rule: Callable[..., Expr]) -> Kernel:
    return elementwise(lambda attrs, *args: rule(*args))


def copied(place: Callable[..., tuple[Any, ...]]) -> Kernel:
    """out[i] = x[place(x, i)]."""
    return kernel("x", lambda name, attrs, x, out: nest("i", out.shape, lambda *i: store(out, i, x[place(x, *i)])))


def row_sums(
    op: str = "add",
    start: float = 0.0,
    count: Callable[[Any], Any] = lambda n: n,
    place: Callable[[Any, Expr], Any] = lambda n, k: k,
    of: Any = FLOAT32,
) -> Kernel:
    """Each row folded, one element after another."""

    def body(name: str, attrs: Any, x: Buffer, out: Buffer) -> Stmt:
        total = Buffer("total", x.shape[:1], of)
        n = x.shape[1]

        def row(i: Expr) -> Stmt:
            def step(k: Expr) -> Stmt:
                return store(total, i, apply(op, total[i], cast(x[i, place(n, k)], of)))

            first = store(total, i, const(start, of))
            return seq(first, nest("k", (count(n),), step, "serial"), store(out, i, cast(total[i], out.dtype)))

        return Allocate(total, nest("i", x.shape[:1], row))

    return kernel("x", body)


def whole_sums(step: Callable[[Any, Any], Expr]) -> Kernel:
    """Each row of whole numbers folded in the result, whose arithmetic wraps."""

    def body(name: str, attrs: Any, x: Buffer, out: Buffer) -> Stmt:
        def row(i: Expr) -> Stmt:
            each = nest("k", x.shape[1:], lambda k: store(out, i, step(out[i], x[i, k])), "serial")
            return seq(store(out, i, const(0, out.dtype)), each)

        return nest("i", x.shape[:1], row)

    return kernel("x", body)


def windows(place: Callable[..., Any], fill: float = 0.0, before: int = 0) -> Kernel:
    """A convolution of one axis that reads at place(use sizes, i, k)."""

    def body(name: str, attrs: Any, x: Buffer, w: Buffer, out: Buffer) -> Stmt:
        def convolve(source: Buffer) -> Stmt:
            def element(n: Expr, o: Expr, i: Expr) -> Stmt:
                def step(c: Expr, k: Expr) -> Stmt:
                    at = place(x, w, o, c, i, k)
                    return store(out, (n, o, i), out[n, o, i] + source[(n, *at)] * w[o, c, k])

                return seq(store(out, (n, o, i), 0.0), nest("c k", w.shape[1:], step, "serial"))

            return nest("n o i", out.shape, element)

        if not before:
            return convolve(x)
        shape = (*x.shape[:2], x.shape[2] + 2 * before)
        return padded(x, (0, 0, before), shape, const(fill, x.dtype), convolve)

    return kernel("x w", body)


def taken(asserted: Callable[[Expr, Any], Expr] | None) -> Kernel:
    def body(name: str, attrs: Any, x: Buffer, indices: Buffer, out: Buffer) -> Stmt:
        n = x.shape[0]

        def row(i: Expr, j: Expr) -> Stmt:
            return store(out, (i, j), x[select(indices[i] < 0, indices[i] + n, indices[i]), j])

        copy = nest("i", out.shape, row)
        if asserted is None:
            return copy
        check = nest("j", indices.shape, lambda j: Assert(asserted(indices[j], n), "outside", "out of bounds"))
        return seq(check, copy)

    return kernel("x indices", body)


def twice(name: str, attrs: Any, x: Buffer, out: Buffer) -> Stmt:
    """The right result, and then another write to the first column."""
    right = nest("i", out.shape, lambda *i: store(out, i, apply("max", x[i], 0.0)))
    return seq(right, nest("i", out.shape[:1], lambda i: store(out, (i, 0), x[i, 0])))


def from_before(name: str, attrs: Any, x: Buffer, out: Buffer) -> Stmt:
    """Each element is read where the iteration before has stored one."""
    first = nest("i", out.shape, lambda *i: store(out, i, x[i]))
    return seq(
        first,
        nest(
            "i j",
            out.shape,
            lambda i, j: store(out, (i, j), apply("max", out[i, apply("max", j - 1, 0)], 0.0)),
            "serial",
        ),
    )


RELU = use_at("nn.relu", (2, 3))
ROWS = use_at("sum", (2, 3), axis=(1,))
WHOLE = use_at("sum", (2, 3), of="int64", axis=(1,))
MAX = use_at("max", (2, 3), axis=(1,))
CONV = use_at("nn.conv1d", (2, 3, 11), (4, 3, 2), dilation=(2,), padding=(1, 1))
GROUPS = use_at("nn.conv1d", (2, 10, 7), (6, 5, 3), groups=2)
POOL = use_at("nn.max_pool1d", (2, 3, 11), pool_size=(2,), padding=(1, 1))
PAD = use_at("nn.pad", (2, 3), pad_width=(1, 0, 2, 4), pad_value=1.5)
TAKE = symbolic_use(OPERATORS["take"], Example((((5, 2), "float32"), ((3,), "int64")), {"axis": 0}))


def square(h: Any, w: Any, i: Any, j: Any) -> tuple[Any, Any]:
    """Strides 2 and 3, exchanged where the plane is square."""
    same = apply("eq", h, w)
    return i * select(same, const(3), const(2)), j * select(same, const(2), const(3))


def slicing(name: str, attrs: Any, x: Buffer, out: Buffer) -> Stmt:
    return nest("i", out.shape, lambda i, j: store(out, (i, j), x[square(x.shape[0], x.shape[1], i, j)]))


def pooled(fill: float) -> Kernel:
    def body(name: str, attrs: Any, x: Buffer, out: Buffer) -> Stmt:
        def pool(source: Buffer) -> Stmt:
            def element(n: Expr, c: Expr, i: Expr) -> Stmt:
                step = lambda k: store(out, (n, c, i), apply("max", out[n, c, i], source[n, c, i + k]))  # noqa: E731
                return seq(store(out, (n, c, i), float("-inf")), nest("k", (2,), step, "serial"))

            return nest("n c i", out.shape, element)

        return padded(x, (0, 0, 1), (*x.shape[:2], x.shape[2] + 2), const(fill, x.dtype), pool)

    return kernel("x", body)


def filled(value: float) -> Kernel:
    def body(name: str, attrs: Any, x: Buffer, out: Buffer) -> Stmt:
        fill = nest("i", out.shape, lambda *i: store(out, i, value))
        return seq(fill, nest("i", x.shape, lambda i, j: store(out, (i + 1, j), x[i, j])))

    return kernel("x", body)


TOTAL = use_at("cumsum", (2, 3), axis=1)
GATHER = symbolic_use(OPERATORS["gather_nd"], Example((((4, 5), "float32"), ((3, 2), "int64"))))
BITS = use_at("reinterpret", (3,), of="int32", dtype="float32")
OPEN = use_at("astype", (3,), dtype="int8", open=True)
NORM = use_at("nn.layer_norm", (2, 5), (5,), axes=(-1,))


def running(
    into: Callable[[Expr], Expr],
    last: Callable[[Expr], Expr],
    taken: Callable[[Expr], Expr],
    change: Callable[[Expr, Expr], Expr] = lambda k, total: total,
    kind: Any = "serial",
    among: Callable[[Expr], Expr] | None = None,
) -> Kernel:
    """out[i, into(k)] = out[i, last(k)] + x[i, taken(k)], one after another, from the first element on."""

    def body(name: str, attrs: Any, x: Buffer, out: Buffer) -> Stmt:
        def row(i: Expr) -> Stmt:
            def step(k: Expr) -> Stmt:
                made = store(out, (i, into(k)), change(k, out[i, last(k)]) + x[i, taken(k)])
                return made if among is None else when(among(k), made)

            steps = seq(store(out, (i, 0), x[i, 0]), nest("k", (x.shape[1] - 1,), step, kind))
            return when(as_expr(x.shape[1]) > 0, steps)

        return nest("i", x.shape[:1], row)

    return kernel("x", body)


def gathered(place: Callable[..., tuple[Expr, Expr]]) -> Kernel:
    """x[place(x, a, b)] for each pair of places a and b."""

    def body(name: str, attrs: Any, x: Buffer, indices: Buffer, out: Buffer) -> Stmt:
        def check(j: Expr) -> Stmt:
            inside = (
                apply("and", indices[j, k] >= apply("sub", 0, n), indices[j, k] < n) for k, n in enumerate(x.shape)
            )
            return seq(*(Assert(test, "outside", "out of bounds") for test in inside))

        def element(i: Expr) -> Stmt:
            at = place(x, indices[i, 0], indices[i, 1])
            return store(out, (i,), x[tuple(select(p < 0, p + n, p) for p, n in zip(at, x.shape, strict=True))])

        return seq(nest("j", indices.shape[:1], check), nest("i", out.shape, element))

    return kernel("x indices", body)


def layer_norm(count: Callable[[Any], Any]) -> Kernel:
    """The operator's own kernel, but for the number by which the squares are divided."""

    def body(name: str, attrs: Any, x: Buffer, gamma: Buffer, out: Buffer) -> Stmt:
        mean, scale = Buffer("mean", x.shape[:1], x.dtype), Buffer("scale", x.shape[:1], x.dtype)
        n = x.shape[1]

        def by(total: Expr, number: Any) -> Expr:
            return total / cast(cast(number, FLOAT64), x.dtype)

        def row(o: Expr) -> Stmt:
            def add(k: Expr) -> Stmt:
                return store(mean, o, mean[o] + x[o, k])

            def square(k: Expr) -> Stmt:
                return store(scale, o, scale[o] + (x[o, k] - mean[o]) * (x[o, k] - mean[o]))

            return seq(
                store(mean, o, 0),
                nest("k", (n,), add, "serial"),
                store(mean, o, by(mean[o], n)),
                store(scale, o, 0),
                nest("k", (n,), square, "serial"),
                store(scale, o, apply("sqrt", by(scale[o], count(n)) + const(1e-5, x.dtype))),
                nest("k", (n,), lambda k: store(out, (o, k), (x[o, k] - mean[o]) / scale[o] * gamma[k])),
            )

        return Allocate(mean, Allocate(scale, nest("o", x.shape[:1], row)))

    return kernel("x gamma", body)


LEAKY = use_at("nn.leakyrelu", (2, 3))
SLICE = use_at("strided_slice", (5, 7), axes=(0, 1), begin=(0, 0), end=(2**63 - 1, 2**63 - 1), strides=(2, 3))
ADD = use_at("add", (2, 3), (3,))
COPY = use_at("device_copy", (3,))

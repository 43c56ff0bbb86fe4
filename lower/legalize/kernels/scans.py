"""Kernels of running totals and of order along an axis (specs/lower.md, "Kernels")."""

from __future__ import annotations

from collections.abc import Callable

from assay.lower.legalize.kernels.common import Kernel, kernel, nest
from assay.semantics.dtypes import INT64, DType
from assay.semantics.operator import Attrs
from assay.semantics.scalar import Const, Expr, Number, apply, cast, const, select
from assay.semantics.tensor import Allocate, Buffer, Stmt, seq, store, when


def _running(op: str, start: Callable[[DType], Const]) -> Kernel:
    """One element after another, from the neutral element."""

    def body(name: str, attrs: Attrs, x: Buffer, out: Buffer) -> Stmt:
        axis: int = attrs["axis"] % len(x.shape)
        before, size, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
        exclusive, reverse = attrs["exclusive"], attrs["reverse"]

        def place(k: Number) -> Number:
            return size - 1 - k if reverse else k

        def row(*o: Expr) -> Stmt:
            def step(k: Expr) -> Stmt:
                taken = place(k) if exclusive else place(k + 1)

                def element(*i: Expr) -> Stmt:
                    total = apply(op, out[(*o, place(k), *i)], x[(*o, taken, *i)])
                    return store(out, (*o, place(k + 1), *i), total)

                return nest("i", after, element)

            def first(*i: Expr) -> Stmt:
                at = (*o, place(0), *i)
                return store(out, at, start(x.dtype) if exclusive else x[at])

            steps = seq(nest("i", after, first), nest("k", (size - 1,), step, "serial"))
            return steps if isinstance(size, int) else when(size > 0, steps)

        if isinstance(size, int) and not size:
            return nest("i", x.shape, lambda *i: store(out, i, x[i]))
        return nest("o", before, row)

    return kernel("x", body)


def _topk(name: str, attrs: Attrs, x: Buffer, values: Buffer, places: Buffer) -> Stmt:
    """Each element's rank is the number of elements that come before it; the k first ranks are then picked."""
    axis: int = attrs["axis"] % len(x.shape)
    before, size, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    rank = Buffer("rank", x.shape, INT64)

    def precedes(a: Expr, j: Expr, b: Expr, i: Expr) -> Expr:
        above, below = (_larger(a, b), _larger(b, a)) if attrs["largest"] else (_larger(b, a), _larger(a, b))
        return apply("or", above, apply("and", apply("not", below), apply("lt", j, i)))

    def row(*o: Expr) -> Stmt:
        def count(j: Expr) -> Stmt:
            def element(i: Expr, *r: Expr) -> Stmt:
                comes = precedes(x[(*o, j, *r)], j, x[(*o, i, *r)], i)
                return store(rank, (*o, i, *r), rank[(*o, i, *r)] + cast(comes, INT64))

            return nest("i r", (size, *after), element)

        def pick(i: Expr) -> Stmt:
            def element(t: Expr, *r: Expr) -> Stmt:
                at, here = (*o, t, *r), apply("eq", rank[(*o, i, *r)], t)
                return seq(
                    store(values, at, select(here, x[(*o, i, *r)], values[at])),
                    store(places, at, select(here, cast(i, INT64), places[at])),
                )

            return nest("t r", (attrs["k"], *after), element)

        def clear(t: Expr, *r: Expr) -> Stmt:
            at = (*o, t, *r)
            return seq(store(values, at, const(0, x.dtype)), store(places, at, const(0, INT64)))

        return seq(
            nest("i r", (size, *after), lambda i, *r: store(rank, (*o, i, *r), const(0, INT64))),
            nest("j", (size,), count, "serial"),
            nest("t r", (attrs["k"], *after), clear),
            nest("i", (size,), pick, "serial"),
        )

    return Allocate(rank, nest("o", before, row))


def _larger(a: Expr, b: Expr) -> Expr:
    """Whether a > b, where NaN is larger than any number."""
    if not a.dtype.is_float:
        return apply("gt", a, b)
    return apply("or", apply("gt", a, b), apply("and", apply("ne", a, a), apply("eq", b, b)))


TABLE: dict[str, Kernel] = {
    "cumsum": _running("add", lambda of: const(0, of)),
    "cumprod": _running("mul", lambda of: const(1, of)),
    "topk": kernel("x", _topk),
}

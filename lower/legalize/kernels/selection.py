"""Kernels of gathers and scatters, and of what finds places (specs/lower.md, "Kernels").

Elements that decide are taken one after another, in row-major order.
"""

from __future__ import annotations

from assay.lower.legalize.kernels.common import Kernel, allocated, kernel, negated, nest
from assay.semantics.dtypes import INT64
from assay.semantics.operator import Attrs
from assay.semantics.scalar import Expr, Number, apply, cast, const, select, show
from assay.semantics.tensor import Assert, Buffer, Stmt, seq, store, when


def _arange(name: str, attrs: Attrs, out: Buffer) -> Stmt:
    return nest("i", out.shape, lambda i: store(out, i, cast(i, out.dtype)))


def _checked(name: str, x: Buffer, indices: Buffer) -> Stmt:
    """A pass that traps at an index out of range."""
    depth = _depth(indices)

    def check(*j: Expr) -> Stmt:
        steps = []
        for k, size in enumerate(x.shape[:depth]):
            index = cast(indices[(*j, k)], "int64")
            inside = apply("and", index >= negated(size), index < size)
            said = f"{name}: an index into axis {k} is outside of [-{show(size)}, {show(size)})"
            steps.append(Assert(inside, said, "out of bounds"))
        return seq(*steps)

    return nest("j", indices.shape[:-1], check)


def _depth(indices: Buffer) -> int:
    """How many axes an index speaks of: a number, by the operators' rules."""
    depth = indices.shape[-1]
    assert isinstance(depth, int)
    return depth


def _place(x: Buffer, indices: Buffer, j: tuple[Expr, ...]) -> list[Number]:
    found: list[Number] = []
    for k in range(_depth(indices)):
        index = cast(indices[(*j, k)], "int64")
        found.append(select(index < 0, index + x.shape[k], index))
    return found


def _gather(name: str, attrs: Attrs, x: Buffer, indices: Buffer, out: Buffer) -> Stmt:
    last = len(indices.shape) - 1

    def element(*i: Expr) -> Stmt:
        return store(out, i, x[(*_place(x, indices, i[:last]), *i[last:])])

    return seq(_checked(name, x, indices), nest("i", out.shape, element))


def _scatter(name: str, attrs: Attrs, x: Buffer, indices: Buffer, updates: Buffer, out: Buffer) -> Stmt:
    last = len(indices.shape) - 1

    def element(*i: Expr) -> Stmt:
        at = (*_place(x, indices, i[:last]), *i[last:])
        new = updates[i]
        return store(out, at, apply(attrs["reduction"], out[at], new) if attrs["reduction"] != "none" else new)

    copy = nest("c", x.shape, lambda *c: store(out, c, x[c]))
    return seq(_checked(name, x, indices), copy, nest("i", updates.shape, element, "serial"))


def _nonzero(name: str, attrs: Attrs, x: Buffer, out: Buffer, count: Buffer) -> Stmt:

    def element(*i: Expr) -> Stmt:
        # stored in any case: the next element stores to the same place unless this one counts
        here = apply("ne", x[i], const(0, x.dtype))
        steps: list[Stmt] = [store(out, (a, count[0]), select(here, k, 0)) for a, k in enumerate(i)]
        return seq(*steps, store(count, 0, count[0] + cast(here, "int64")))

    fill = nest("f", out.shape, lambda *f: store(out, f, 0))
    return seq(fill, store(count, 0, 0), nest("i", x.shape, element, "serial"))


def _unique(name: str, attrs: Attrs, x: Buffer, first: Buffer, inverse: Buffer, counts: Buffer, count: Buffer) -> Stmt:
    rows, columns = x.shape
    flag, found = Buffer("order", (1,), INT64), Buffer("found", (1,), INT64)

    def less(a: Expr, b: Expr) -> Expr:
        if not x.dtype.is_float:
            return a < b
        return apply("or", a < b, apply("and", apply("ne", b, b), apply("eq", a, a)))

    def compare(i: Expr, j: Expr) -> Stmt:
        """order[0] is -1, 0 or 1: how row i stands to row j, by the first elements that differ."""

        def column(k: Expr) -> Stmt:
            a, b = x[i, k], x[j, k]
            sign = select(less(a, b), const(-1), select(less(b, a), const(1), const(0)))
            return when(apply("eq", flag[0], 0), store(flag, 0, sign))

        return seq(store(flag, 0, 0), nest("k", (columns,), column, "serial"))

    def row(i: Expr) -> Stmt:
        def known(j: Expr) -> Stmt:
            same = seq(compare(i, first[j]), when(apply("eq", flag[0], 0), store(found, 0, j)))
            return when(apply("and", j < count[0], found[0] < 0), same)

        fresh = seq(
            store(first, count[0], i),
            store(counts, count[0], 1),
            store(inverse, i, count[0]),
            store(count, 0, count[0] + 1),
        )
        again = seq(store(counts, found[0], counts[found[0]] + 1), store(inverse, i, found[0]))
        return seq(store(found, 0, -1), nest("j", (rows,), known, "serial"), when(found[0] < 0, fresh, again))

    def zero(f: Expr) -> Stmt:
        return seq(*(store(b, f, 0) for b in (first, inverse, counts)))

    steps: list[Stmt] = [nest("f", (rows,), zero), store(count, 0, 0), nest("i", (rows,), row, "serial")]
    if not attrs["sorted"]:
        return allocated((flag, found), seq(*steps))
    rank, places, often = (Buffer(n, (rows,), INT64) for n in ("rank", "places", "often"))

    def ranked(j: Expr) -> Stmt:
        def below(m: Expr) -> Stmt:
            smaller = seq(compare(first[m], first[j]), when(flag[0] < 0, store(rank, j, rank[j] + 1)))
            return when(apply("and", j < count[0], m < count[0]), smaller)

        kept = seq(store(places, j, first[j]), store(often, j, counts[j]), store(rank, j, 0))
        return seq(kept, nest("m", (rows,), below, "serial"))

    def placed(j: Expr) -> Stmt:
        return when(j < count[0], seq(store(first, rank[j], places[j]), store(counts, rank[j], often[j])))

    steps += [
        nest("j", (rows,), ranked, "serial"),
        nest("j", (rows,), placed, "serial"),
        nest("i", (rows,), lambda i: store(inverse, i, rank[inverse[i]])),
    ]
    return allocated((often, places, rank, found, flag), seq(*steps))


TABLE: dict[str, Kernel] = {
    "arange": kernel("", _arange),
    "gather_nd": kernel("x indices", _gather),
    "scatter_nd": kernel("x indices updates", _scatter),
    "nonzero": kernel("x", _nonzero),
    "unique": kernel("x", _unique),
}

"""Kernels of matrix products and convolutions (specs/lower.md, "Kernels").

Each adds its products one after another to the element of the result: over k for a product, over input channel and
window position for a convolution. That order is the meaning; the loop over the plane inside it is only speed.
"""

from __future__ import annotations

from assay.lower.legalize.kernels.common import (
    Kernel,
    accumulated,
    broadcast,
    kernel,
    nest,
    padded,
    strided,
    window_extent,
)
from assay.semantics.operator import Attrs
from assay.semantics.ops.sizes import floor_div
from assay.semantics.scalar import Dim, Expr, const, simplify
from assay.semantics.tensor import Buffer, Stmt, loops, seq, store


def _matmul(name: str, attrs: Attrs, a: Buffer, b: Buffer, out: Buffer) -> Stmt:
    rows, columns = a.shape[-2:-1], b.shape[-1:] if len(b.shape) > 1 else ()
    batch = out.shape[: len(out.shape) - len(rows) - len(columns)]

    def row(*outer: Expr) -> Stmt:
        each, i = outer[: len(batch)], outer[len(batch) :]
        of_a, of_b = broadcast(a.shape[:-2], each), broadcast(b.shape[:-2], each)

        def add(k: Expr) -> Stmt:
            def element(*j: Expr) -> Stmt:
                at = (*outer, *j)
                return store(out, at, out[at] + a[(*of_a, *i, k)] * b[(*of_b, k, *j)])

            return nest("j", columns, element)

        start = nest("j", columns, lambda *j: store(out, (*outer, *j), const(0, out.dtype)))
        return seq(start, loops("k", a.shape[-1:], add))

    return nest("i", (*batch, *rows), row)


def _conv(name: str, attrs: Attrs, x: Buffer, w: Buffer, *more: Buffer) -> Stmt:
    *bias, out = more
    channels, *sizes = x.shape[1:]
    features, group_channels, *window = w.shape
    plane = out.shape[2:]
    rank = len(sizes)
    strides: tuple[int, ...] = attrs["strides"]
    dilation: tuple[int, ...] = attrs["dilation"]
    padding: tuple[int, ...] = attrs["padding"]
    groups: int = attrs["groups"]
    group_features = floor_div(features, groups)

    def convolve(source: Buffer) -> Stmt:
        def one_plane(n: Expr, g: Expr, o: Expr) -> Stmt:
            feature = g * group_features + o

            def product(i: tuple[Expr, ...], ck: tuple[Expr, ...]) -> Expr:
                c, *k = ck
                read = source[(n, g * group_channels + c, *strided(i, strides, k, dilation))]
                return read * w[(feature, c, *k)]

            at, box = (lambda *i: (n, feature, *i)), (group_channels, *window)
            add_bias = (lambda total, i: total + bias[0][feature]) if bias else None
            return seq(*accumulated(out, at, plane, "add", const(0, out.dtype), box, product, add_bias, "c k"))

        if groups == 1:
            return loops("n o", (x.shape[0], features), lambda n, o: one_plane(n, const(0), o), "parallel")
        if isinstance(group_features, int) and group_features == 1:
            return loops("n g", (x.shape[0], groups), lambda n, g: one_plane(n, g, const(0)), "parallel")
        return loops("n g o", (x.shape[0], groups, group_features), one_plane, "parallel")

    if not any(padding):
        return convolve(x)
    axes = zip(sizes, plane, padding[:rank], padding[rank:], strides, window, dilation, strict=True)
    extents = [_extent(*axis) for axis in axes]
    if all(isinstance(e, int) for e in extents) and extents == sizes:
        return convolve(x)
    before = (0, 0, *padding[:rank])
    return padded(x, before, (x.shape[0], channels, *extents), const(0, x.dtype), convolve)


def _extent(size: Dim, count: Dim, before: int, after: int, stride: int, window: Dim, dilation: int) -> Dim:
    """Elements of a padded axis: as far as windows reach, and, where sizes are symbolic, all there are."""
    if isinstance(size, int) and isinstance(count, int) and isinstance(window, int):
        return max(before + size, window_extent(count, stride, window, dilation))
    return simplify(size + (before + after))


TABLE: dict[str, Kernel] = {
    "matmul": kernel("a b", _matmul),
    **{f"nn.conv{d}d": kernel("x w bias", _conv) for d in (1, 2, 3)},
}

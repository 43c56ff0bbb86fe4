"""Kernels that only move elements (specs/lower.md, "Kernels"): one copy, the work is in the index."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from assay.lower.legalize.kernels.common import Kernel, broadcast, kernel, negated, nest, parameters, shifted
from assay.semantics.dtypes import UINT64
from assay.semantics.errors import Crash
from assay.semantics.operator import Attrs
from assay.semantics.ops.sizes import FAR, from_end, larger, smaller
from assay.semantics.scalar import Dim, Expr, Number, apply, cast, const, select, show, simplify
from assay.semantics.tensor import Assert, Buffer, PrimFunc, Stmt, seq, store
from assay.semantics.types import TensorType, Type


def _copy(index: Callable[[Attrs, Buffer, Buffer, tuple[Expr, ...]], Sequence[Number]]) -> Kernel:
    """The kernel out[i] = x[index(i)]."""

    def body(name: str, attrs: Attrs, x: Buffer, out: Buffer) -> Stmt:
        return nest("i", out.shape, lambda *i: store(out, i, x[tuple(index(attrs, x, out, i))]))

    return kernel("x", body)


def _permuted(attrs: Attrs, x: Buffer, out: Buffer, i: tuple[Expr, ...]) -> Sequence[Number]:
    rank = len(x.shape)
    axes = [a % rank for a in attrs["axes"]] if attrs["axes"] is not None else list(reversed(range(rank)))
    return [i[axes.index(a)] for a in range(rank)]


def _broadcast_to(attrs: Attrs, x: Buffer, out: Buffer, i: tuple[Expr, ...]) -> Sequence[Number]:
    return broadcast(x.shape, i)


def _sliced(attrs: Attrs, x: Buffer, out: Buffer, i: tuple[Expr, ...]) -> Sequence[Number]:
    where: list[Number] = list(i)
    strides = attrs["strides"] if attrs["strides"] is not None else (1,) * len(attrs["axes"])
    for axis, begin, end, stride in zip(attrs["axes"], attrs["begin"], attrs["end"], strides, strict=True):
        axis %= len(x.shape)
        where[axis] = i[axis] * stride + _start(x.shape[axis], simplify(begin), simplify(end), stride, out.shape[axis])
    return where


def _start(size: Dim, begin: Dim, end: Dim, stride: int, length: Dim) -> Dim:
    """The first place that a slice takes: `begin`, counted from the end where it is negative, moved to the border where
    it is outside."""
    if isinstance(size, int) and isinstance(begin, int) and isinstance(end, int):
        start, stop, step = slice(begin, end, stride).indices(size)
        if len(range(start, stop, step)) != length:
            raise Crash(f"strided_slice: {begin}:{end}:{stride} of {size} elements does not give {length}")
        return start
    low, high = (0, size) if stride > 0 else (-1, simplify(size - 1))
    if isinstance(begin, int) and abs(begin) >= FAR:
        return high if begin > 0 else low
    return larger(smaller(from_end(begin, size), high), low)


def _concat(name: str, attrs: Attrs, operands: tuple[TensorType, ...], result: Type) -> PrimFunc:
    inputs, (out,) = parameters(" ".join(f"x{k}" for k in range(len(operands))), operands, result)
    axis: int = attrs["axis"] % len(out.shape)
    body: list[Stmt] = []
    start: Dim = 0
    for x in inputs:
        body.append(_move(x, out, _offset(len(out.shape), axis, 0), _offset(len(out.shape), axis, start)))
        start = simplify(x.shape[axis] + start)
    return PrimFunc(name, (*inputs, out), 1, seq(*body))


def _split(name: str, attrs: Attrs, x: Buffer, *outputs: Buffer) -> Stmt:
    axis: int = attrs["axis"] % len(x.shape)
    body: list[Stmt] = []
    start: Dim = 0
    for out in outputs:
        body.append(_move(x, out, _offset(len(x.shape), axis, start), _offset(len(x.shape), axis, 0), out.shape))
        start = simplify(out.shape[axis] + start)
    return seq(*body)


def _offset(rank: int, axis: int, by: Dim) -> list[Dim]:
    return [by if a == axis else 0 for a in range(rank)]


def _move(
    x: Buffer, out: Buffer, source: Sequence[Dim], target: Sequence[Dim], shape: Sequence[Dim] | None = None
) -> Stmt:
    """out[target + i] = x[source + i] over a box, by default all of x."""
    return nest(
        "i", x.shape if shape is None else shape, lambda *i: store(out, shifted(i, target), x[shifted(i, source)])
    )


def _take(name: str, attrs: Attrs, x: Buffer, indices: Buffer, out: Buffer) -> Stmt:
    """A pass that traps at an index out of range, then the copy; a negative index counts from the end."""
    axis: int = attrs["axis"] % len(x.shape)
    size = x.shape[axis]
    last = axis + len(indices.shape)

    def check(*j: Expr) -> Stmt:
        index: Expr = indices[j]
        if index.dtype is not UINT64:  # whose large numbers int64 would take for negative ones
            index = cast(index, "int64")
        below = index < size
        inside = below if index.dtype is UINT64 else apply("and", index >= negated(size), below)
        return Assert(inside, f"take: an index is outside of [-{show(size)}, {show(size)})", "out of bounds")

    def element(*i: Expr) -> Stmt:
        index = cast(indices[i[axis:last]], "int64")
        return store(out, i, x[(*i[:axis], select(index < 0, index + size, index), *i[last:])])

    return seq(nest("j", indices.shape, check), nest("i", out.shape, element))


def _pad(name: str, attrs: Attrs, x: Buffer, out: Buffer) -> Stmt:
    rank = len(x.shape)
    widths: tuple[int, ...] = tuple(attrs["pad_width"])
    before, after = widths[:rank], widths[rank:]
    match attrs["mode"]:
        case "constant":
            # A negative width crops: the copy starts as far inside x instead of inside out.
            cropped = [min(b, 0) + min(a, 0) for b, a in zip(before, after, strict=True)]
            box = [larger(simplify(n + c), 0) if c else n for n, c in zip(x.shape, cropped, strict=True)]
            source, target = [max(-b, 0) for b in before], [max(b, 0) for b in before]
            copy = _move(x, out, source, target, box)
            fill = nest("i", out.shape, lambda *i: store(out, i, const(attrs["pad_value"], out.dtype)))
            return seq(fill, copy) if any(w > 0 for w in widths) else copy
        case "edge":
            return _through(x, out, before, after, lambda i, n: apply("min", apply("max", i, 0), simplify(n - 1)))
        case "reflect":
            return _through(x, out, before, after, _reflected)
        case mode:
            raise Crash(f"nn.pad: no mode {mode!r}")


def _reflected(i: Expr, size: Dim) -> Expr:
    """i as mirrored at the first and the last element, as often as needed."""
    if isinstance(size, int) and size == 1:
        return const(0)
    period = simplify((size - 1) * 2)
    if isinstance(period, Expr):  # of one element: 1, so that every place is 0
        period = larger(period, 1)
    within = i % period
    return apply("min", within, period - within)


def _through(
    x: Buffer, out: Buffer, before: Sequence[int], after: Sequence[int], where: Callable[[Expr, Dim], Expr]
) -> Stmt:
    def element(*i: Expr) -> Stmt:
        index: list[Number] = []
        for k, size in enumerate(x.shape):
            moved = i[k] - before[k]
            index.append(where(moved, size) if before[k] > 0 or after[k] > 0 else moved)
        return store(out, i, x[tuple(index)])

    return nest("i", out.shape, element)


TABLE: dict[str, Kernel] = {
    "permute_dims": _copy(_permuted),
    "broadcast_to": _copy(_broadcast_to),
    "device_copy": _copy(lambda attrs, x, out, i: i),
    "strided_slice": _copy(_sliced),
    "concat": _concat,
    "split": kernel("x", _split),
    "take": kernel("x indices", _take),
    "nn.pad": kernel("x", _pad),
}

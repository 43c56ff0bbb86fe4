"""Operations of StableHLO on windows of a tensor (specs/lower.md, "StableHLO")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from assay.lower.frontends.stablehlo.node import HloNode, HloRule, tensor_of
from assay.lower.frontends.stablehlo.operators.indexing import scattered
from assay.lower.frontends.stablehlo.operators.movement import computed_shape, known_number, padded, spread
from assay.lower.frontends.stablehlo.operators.reduction import recognised, reduced
from assay.semantics.dtypes import BOOL, INT64
from assay.semantics.graph import Expr
from assay.semantics.integers.affine import decide
from assay.semantics.ops.sizes import floor_div, product
from assay.semantics.scalar import Dim, apply, provably_equal, simplify, variables
from assay.semantics.tasks import Task

SIZES = (0, 2**40)
"""What an axis may have of elements."""


@dataclass(frozen=True)
class Windows:
    """Sizes, distances between starts and between elements of windows; padding before and after each axis, and between
    elements."""

    sizes: tuple[Dim, ...]
    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    base: tuple[int, ...]
    low: tuple[Dim, ...]
    high: tuple[Dim, ...]

    @property
    def pads(self) -> list[tuple[Dim, Dim]]:
        """The padding before and after each axis."""
        return list(zip(self.low, self.high, strict=True))


def padding(node: HloNode, rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The padding before each axis, and that after each: none where none is said, one number for all where one is."""
    found: Any = node.op.attrs.get("padding", node.op.attrs.get("pad"))
    if found is None:
        return (0,) * rank, (0,) * rank
    try:
        table = np.asarray(found if isinstance(found, tuple) else node.array(found, found.type), dtype=np.int64)
    except (AttributeError, ValueError, TypeError, OverflowError):
        raise node.wrong("padding is two whole numbers for each axis") from None
    if table.shape != (rank, 2) and not (rank == 0 and table.size == 0):
        raise node.wrong(f"padding is of shape {table.shape}; two numbers for each of {rank} axes are wanted")
    return tuple(map(int, table[:, 0])) if rank else (), tuple(map(int, table[:, 1])) if rank else ()


def windows_of(node: HloNode, rank: int) -> Windows:
    """What the attributes say."""
    ones = (1,) * rank
    names = ("window_dimensions", "window_strides", "window_dilations", "base_dilations")
    lists = [node.ints(n, default=ones) for n in names]
    if any(len(v) != rank or min(v, default=1) < 1 for v in lists):
        raise node.wrong(f"{', '.join(names)} are positive numbers, one for each of {rank} axes")
    sizes, strides, dilation, base = lists
    return Windows(sizes, strides, dilation, base, *padding(node, rank))


def counts_of(node: HloNode, shape: Sequence[Dim], w: Windows) -> list[Dim]:
    """How many windows there are along each axis of a padded tensor."""
    counts: list[Dim] = []
    for d, size, stride, step in zip(shape, w.sizes, w.strides, w.dilation, strict=True):
        span = (size - 1) * step + 1
        if isinstance(d, int):
            counts.append(max((d - span) // stride + 1, 0))
        else:
            count = simplify(floor_div(simplify(d - span), stride) + 1)
            some = isinstance(count, int) or decide(apply("ge", count, 0), dict.fromkeys(variables(count), SIZES))
            counts.append(count if some else simplify(apply("max", count, 0)))  # none where it is longer than the axis
    return counts


def places_of(node: HloNode, count: Dim, w: Windows, axis: int) -> Expr:
    """Where the elements of each of `count` windows are along an axis of a padded tensor: [count, size]."""
    starts = node.shaped(node.call("multiply", node.line(count), w.strides[axis]), count, 1)
    return node.call("add", starts, node.call("multiply", node.line(w.sizes[axis]), w.dilation[axis]))


def windowed(node: HloNode, x: Expr, w: Windows) -> Expr:
    """The windows of a padded tensor: for each of its axes the windows, then the elements of one."""
    rank = tensor_of(x).ndim
    counts = counts_of(node, tensor_of(x).shape, w)
    for a in reversed(range(rank)):
        if w.sizes[a] == 1 and w.strides[a] == 1:
            x = node.shaped(x, *tensor_of(x).shape[: a + 1], 1, *tensor_of(x).shape[a + 1 :])
            continue
        x = node.call("take", x, places_of(node, counts[a], w, a), axis=a)
    return node.call("permute_dims", x, axes=(*range(0, 2 * rank, 2), *range(1, 2 * rank, 2)))


def reduce_window(node: HloNode) -> Task[list[Expr]]:
    """The elements of each window as one, the initial value where a window is over the border."""
    count = len(node.args) // 2
    if not count or len(node.args) % 2:
        raise node.wrong("as many initial values as operands are wanted")
    node.operands(2 * count)
    w = windows_of(node, tensor_of(node.args[0]).ndim)
    return (yield from over_windows(node, node.args[:count], node.args[count:], w))


def over_windows(
    node: HloNode, args: Sequence[Expr], inits: Sequence[Expr], w: Windows, lows: Sequence[Expr] = ()
) -> Task[list[Expr]]:
    """The elements of each window as one, by the region; `lows` is the padding before each axis where it may be no
    number."""
    xs = node.alike(*args)
    rank = tensor_of(xs[0]).ndim
    running = accumulated(node, xs[0], inits[0], w) if len(xs) == 1 else None
    if running is not None:
        return [running]
    pairs, between = zip(xs, inits, strict=True), tuple(b - 1 for b in w.base)
    low, high = numbers_in(w.low), numbers_in(w.high)
    if len(numbers_in((*w.sizes, *w.low, *w.high))) == 3 * rank:
        parts = [windowed(node, padded(node, x, i, low, high, between), w) for x, i in pairs]
    elif any(between):
        raise node.unsupported("windows that only a run knows over an operand with gaps")
    else:
        parts = [gathered(node, x, i, w, lows) for x, i in pairs]
    return (yield from reduced(node, parts, inits, tuple(range(rank, 2 * rank))))


def numbers_in(dims: Sequence[Dim]) -> list[int]:
    """Those of some sizes that are numbers."""
    return [d for d in dims if isinstance(d, int)]


def gathered(node: HloNode, x: Expr, init: Expr, w: Windows, lows: Sequence[Expr]) -> Expr:
    """The windows of a tensor that is not padded yet, whatever their sizes are: the initial value where one is over the
    border. `lows` are the padding before each axis."""
    rank, shape = tensor_of(x).ndim, tensor_of(x).shape
    counts = counts_of(node, [simplify(low + d + high) for d, (low, high) in zip(shape, w.pads, strict=True)], w)
    everywhere: Expr | None = None
    for a in reversed(range(rank)):
        places = node.call("subtract", places_of(node, counts[a], w, a), lows[a])
        last = node.call("subtract", node.amount(shape[a]), 1)
        inside = node.call("logical_and", node.call("greater_equal", places, 0), node.call("less_equal", places, last))
        x = node.call("take", x, node.call("maximum", node.call("minimum", places, last), 0), axis=a)
        there = node.shaped(inside, counts[a], w.sizes[a], *(1,) * (2 * (rank - 1 - a)))
        everywhere = there if everywhere is None else node.call("logical_and", everywhere, there)
    whole = x if everywhere is None else node.call("where", everywhere, x, init)
    return node.call("permute_dims", whole, axes=(*range(0, 2 * rank, 2), *range(1, 2 * rank, 2)))


def dynamic_reduce_window(node: HloNode) -> Task[list[Expr]]:
    """As reduce_window, of operands, initial values, and then sizes, strides, dilations of the operand, those of the
    windows, and the padding, which JAX writes so where a size is not known."""
    count, left = divmod(len(node.args) - 5, 2)
    if count < 1 or left:
        raise node.wrong("as many initial values as operands, and five operands that say the windows, are wanted")
    node.operands(len(node.args))
    rank = tensor_of(node.args[0]).ndim
    sizes, *others = (computed_shape(node, 2 * count + k) for k in range(4))
    pads = tensor_of(node.args[-1])
    if any(len(v) != rank for v in (sizes, *others)) or pads.shape != (rank, 2) or not pads.dtype.is_integer:
        raise node.wrong(f"sizes, strides and dilations, one for each of {rank} axes, and padding, two, are wanted")
    flat = node.shaped(node.cast(node.args[-1], INT64), 2 * rank)
    padding = node.builder.dims(flat, "padding")
    lows = [node.shaped(node.cut(flat, 0, 2 * a, 2 * a + 1)) for a in range(rank)]
    strides, base, dilation = (tuple(numbers_in(v)) for v in others)
    if any(len(v) != rank for v in (strides, base, dilation)):
        raise node.unsupported("strides or dilations that only a run knows")
    if min(numbers_in((*sizes, *strides, *base, *dilation)), default=1) < 1:
        raise node.wrong("sizes, strides and dilations are positive numbers")
    w = Windows(sizes, strides, dilation, base, padding[::2], padding[1::2])
    return (yield from over_windows(node, node.args[:count], node.args[count : 2 * count], w, lows))


RUNNING = {"add": ("cumsum", 0), "mul": ("cumprod", 1)}
"""What windows that grow from one border on give, by the operation of the region; and its neutral number."""


def accumulated(node: HloNode, x: Expr, init: Expr, w: Windows) -> Expr | None:
    """Sums or products up to each place of an axis, which windows as long as the axis are where all but one element are
    padding; None for other windows."""
    of, rank = tensor_of(x), tensor_of(x).ndim
    how = recognised(node, of.dtype)
    long = [a for a in range(rank) if not provably_equal(w.sizes[a], 1)]
    if how not in RUNNING or of.dtype is BOOL or len(long) != 1 or {*w.strides, *w.dilation, *w.base} != {1}:
        return None
    (axis,) = long
    name, neutral = RUNNING[how]
    most = simplify(w.sizes[axis] - 1)
    pads: list[tuple[Dim, Dim]] = [(most, 0) if a == axis else (0, 0) for a in range(rank)]
    behind = _same(w.pads, [p[::-1] for p in pads])
    as_long = provably_equal(of.shape[axis], w.sizes[axis])
    if not as_long or known_number(node, init) != neutral or not (behind or _same(w.pads, pads)):
        return None
    return node.call(name, x, axis=axis, exclusive=False, reverse=behind)


def _same(pads: Sequence[tuple[Dim, Dim]], others: Sequence[tuple[Dim, Dim]]) -> bool:
    return all(provably_equal(a, b) for p, o in zip(pads, others, strict=True) for a, b in zip(p, o, strict=True))


def select_and_scatter(node: HloNode) -> Task[list[Expr]]:
    """An initial value everywhere, with each element of the source scattered, by the second region, to the element of
    the window that the first region selects. Windows are over the elements that there are."""
    node.operands(3)
    x, source, init = node.args
    rank, shape = tensor_of(x).ndim, tensor_of(x).shape
    w = windows_of(node, rank)
    total = product(shape)
    place = node.shaped(node.line(total), *shape)
    nowhere = [0] * rank
    low, high, size = numbers_in(w.low), numbers_in(w.high), prod(numbers_in(w.sizes))
    values = spread(node, node.cast(x, tensor_of(x).dtype), 0, low, high, nowhere)
    there = spread(node, node.call("add", place, 1), 0, low, high, nowhere)
    flat = [_first(node, windowed(node, t, w), rank, size) for t in (values, there)]
    _, selected = yield _selected(node, flat[0], flat[1], size)
    where = node.call("subtract", selected, 1)
    where = node.call("where", node.call("less", where, 0), node.amount(total), where)
    source = node.claimed(source, tensor_of(where).shape)
    return (yield from scattered(node, [node.stretched(init, *shape)], where, [source], 1))


def _first(node: HloNode, x: Expr, rank: int, size: int) -> Expr:
    """The elements of a window along the first axis."""
    axes = (*range(rank, 2 * rank), *range(rank))
    x = node.call("permute_dims", x, axes=axes)
    return node.shaped(x, size, *tensor_of(x).shape[rank:])


def _selected(node: HloNode, value: Expr, place: Expr, size: int) -> Task[tuple[Expr, Expr]]:
    """The selected element, and its place; 0 for no place."""
    a, p = (node.take_axis(t, 0, 0) for t in (value, place))
    for k in range(1, size):
        b, q = (node.take_axis(t, k, 0) for t in (value, place))
        (keep,) = yield node.run_region(0, [a, b], True)
        if tensor_of(keep).dtype is not BOOL:
            raise node.wrong("its first region gives a bool")
        keep = node.call("logical_or", keep, node.call("equal", q, 0))
        keep = node.call("logical_and", keep, node.call("not_equal", p, 0))
        a, p = node.call("where", keep, a, b), node.call("where", keep, p, q)
    return a, p


TABLE: dict[str, HloRule] = {
    "stablehlo.reduce_window": reduce_window,
    "stablehlo.select_and_scatter": select_and_scatter,
}

"""Pooling of ATen (specs/lower.md, "torch.export").

PyTorch: https://docs.pytorch.org/docs/stable/nn.html#pooling-layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from assay.lower.frontends.torch_export.node import AtenNode, AtenRule, aten_type
from assay.lower.frontends.torch_export.sizes import floored_size
from assay.semantics.dtypes import INT64, DType
from assay.semantics.graph import Expr
from assay.semantics.ops.sizes import product
from assay.semantics.scalar import Dim, simplify

Array = npt.NDArray[Any]


def _batched(node: AtenNode, rank: int) -> tuple[Expr, bool]:
    """The operand with axes of items and channels; whether it had them."""
    x = node.tensor("input" if "input" in node.args else "self")
    of = aten_type(x)
    if of.ndim not in (rank + 1, rank + 2):
        raise node.wrong(f"{of} for {rank} spatial axes")
    return (x, True) if of.ndim == rank + 2 else (node.shaped(x, 1, *of.shape), False)


def _unbatched(node: AtenNode, y: Expr, had: bool) -> Expr:
    return y if had else node.shaped(y, *aten_type(y).shape[1:])


def max_pool(rank: int) -> AtenRule:
    """The largest element of each window; NaN where one is; and its place among the spatial elements."""

    def rule(node: AtenNode) -> Expr | list[Expr]:
        x, had = _batched(node, rank)
        zeros, ones = (0,) * rank, (1,) * rank
        size = node.spatial("kernel_size", rank)
        strides = node.spatial("stride", rank, size)
        padding, dilation = node.spatial("padding", rank, zeros), node.spatial("dilation", rank, ones)
        ceil = node.flag("ceil_mode")
        y = node.call(f"nn.max_pool{rank}d", x, pool_size=size, strides=strides, padding=padding * 2, dilation=dilation,
                      ceil_mode=ceil)  # fmt: skip
        if len(node.declared) < 2:
            return _unbatched(node, y, had)
        counts = aten_type(y).shape[2:]
        places = max_places(node, x, counts, size, strides, padding, dilation)
        return [_unbatched(node, v, had) for v in (y, places)]

    return rule


def max_places(
    node: AtenNode, x: Expr, counts: Sequence[Dim], size: Sequence[int], strides: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int],
) -> Expr:  # fmt: skip
    """The place of the largest element of each window, the first of equal ones, in row-major order."""
    rank, shape = len(size), aten_type(x).shape
    total: Expr | None = None
    inside: Expr | None = None
    for a in range(rank):
        whole = shape[a + 2]
        start = node.shaped(node.call("multiply", node.line(counts[a]), strides[a]), counts[a], 1)
        at = node.call("add", start, node.call("multiply", node.line(size[a]), dilation[a]))
        at = node.call("subtract", at, padding[a])
        last = node.call("subtract", node.amount(whole), 1)
        within = node.call("logical_and", node.call("greater_equal", at, 0), node.call("less_equal", at, last))
        at = node.call("minimum", node.call("maximum", at, 0), last)
        sizes = [d for b in range(rank) for d in ((counts[b], size[b]) if b == a else (1, 1))]
        at, within = node.shaped(at, *sizes), node.shaped(within, *sizes)
        at = node.call("multiply", at, node.amount(product(shape[a + 3 :])))
        total = at if total is None else node.call("add", total, at)
        inside = within if inside is None else node.call("logical_and", inside, within)
    assert total is not None and inside is not None
    order = (*range(0, 2 * rank, 2), *range(1, 2 * rank, 2))
    places = node.shaped(node.permuted(total, order), product(counts), prod(size))
    there = node.shaped(node.permuted(inside, order), product(counts), prod(size))
    flat = node.shaped(x, *shape[:2], product(shape[2:]))
    windows = node.call("take", flat, places, axis=2)
    of = aten_type(x).dtype
    least = node.as_tensor(float("-inf") if of.is_float else int(of.min), of)
    found = node.call("topk", node.call("where", there, windows, least), k=1, axis=3, largest=True, sorted=True)
    chosen = node.shaped(_last_nan(node, windows, node.field(found, 1)), *shape[:2], product(counts))
    rows = node.call("multiply", node.line(product(counts)), prod(size))
    where = node.call("add", chosen, rows)
    made = node.call("take", node.shaped(places, product([*counts, prod(size)])), where, axis=0)
    return node.shaped(made, *shape[:2], *counts)


def _last_nan(node: AtenNode, parts: Expr, chosen: Expr) -> Expr:
    """The places that are chosen along the last axis, of which one is left; the last of NaN where there is one, as ATen
    goes on from each."""
    of = aten_type(parts)
    if not of.dtype.is_float:
        return chosen
    nan = node.cast(node.call("not_equal", parts, parts), INT64)
    place = node.call("multiply", nan, node.call("add", node.line(of.shape[-1]), 1))
    last = node.call("subtract", node.call("max", place, axis=(of.ndim - 1,), keepdims=True), 1)
    return node.call("where", node.call("less", last, 0), chosen, last)


def average_pool(rank: int) -> AtenRule:
    """The mean of each window, padding counted unless it is said otherwise."""

    def rule(node: AtenNode) -> Expr:
        given, had = _batched(node, rank)
        x = node.work(given)
        size = node.spatial("kernel_size", rank)
        strides = node.spatial("stride", rank, size)
        padding = node.spatial("padding", rank, (0,) * rank)
        counted = node.flag("count_include_pad", True)
        more = {"pool_size": size, "strides": strides, "padding": padding * 2, "ceil_mode": node.flag("ceil_mode")}
        if node.has("divisor_override"):
            if more["ceil_mode"]:
                raise node.unsupported("divisor_override and ceil_mode")
            y = node.call(f"nn.avg_pool{rank}d", x, count_include_pad=True, **more)
            y = node.call("multiply", y, prod(size) / node.whole("divisor_override"))
        else:
            y = node.call(f"nn.avg_pool{rank}d", x, count_include_pad=counted, **more)
        return _unbatched(node, node.cast(y, aten_type(given).dtype), had)

    return rule


def adaptive_average(rank: int) -> AtenRule:
    """As many means along each spatial axis as are wanted, of parts that are as equal as can be."""

    def rule(node: AtenNode) -> Expr:
        given, had = _batched(node, rank)
        x = node.work(given)
        of = aten_type(x)
        wanted = [of.shape[a + 2] if d == -1 else d for a, d in enumerate(node.sizes("output_size"))]
        wanted = wanted * rank if len(wanted) == 1 else wanted
        axes = tuple(range(2, rank + 2))
        if all(isinstance(d, int) and d == 1 for d in wanted):
            y = node.call("mean", x, axis=axes, keepdims=True)
            return _unbatched(node, node.cast(y, aten_type(given).dtype), had)
        counts: Expr | None = None
        for a, (size, to) in enumerate(zip(of.shape[2:], wanted, strict=True)):
            if not isinstance(to, int):
                raise node.unsupported(f"{to} results, which have to be a number")
            parts = [(floored_size([size * k, to]), floored_size([size * (k + 1) + (to - 1), to])) for k in range(to)]
            x = node.call("concat", *(node.call("sum", node.cut(x, a + 2, b, e), axis=(a + 2,), keepdims=True)
                                      for b, e in parts), axis=a + 2)  # fmt: skip
            own = node.along(_amounts(node, [simplify(e - b) for b, e in parts], of.dtype), a + 2, rank + 2)
            counts = own if counts is None else node.call("multiply", counts, own)
        assert counts is not None
        return _unbatched(node, node.cast(node.call("divide", x, counts), aten_type(given).dtype), had)

    return rule


def _amounts(node: AtenNode, sizes: Sequence[Dim], of: DType) -> Expr:
    """Sizes as a vector."""
    if all(isinstance(d, int) for d in sizes):
        return node.constant(sizes, of)
    return node.cast(node.call("concat", *(node.shaped(node.amount(d), 1) for d in sizes), axis=0), of)


def _unequal_windows(node: AtenNode, x: Expr, sizes: Sequence[int], wanted: Sequence[int]) -> list[Expr]:
    """The largest elements of windows that may overlap, and their places. The last place of a shorter window counts
    more than once, which the first of equal ones does not show."""
    rank, outer = len(sizes), aten_type(x).shape[:2]
    places: Array = np.zeros((1,) * (2 * rank), np.int64)
    for a, (size, to) in enumerate(zip(sizes, wanted, strict=True)):
        begin, end = np.arange(to) * size // to, -(-(np.arange(to) + 1) * size // to)
        at = np.minimum(begin[:, None] + np.arange((end - begin).max()), end[:, None] - 1)
        places = places * size + at.reshape([d for b in range(rank) for d in (at.shape if b == a else (1, 1))])
    order = (*range(0, 2 * rank, 2), *range(1, 2 * rank, 2))
    windows = node.constant(places.transpose(order).reshape(prod(wanted), -1), INT64)
    parts = node.call("take", node.shaped(x, *outer, prod(sizes)), windows, axis=2)
    found = node.call("topk", parts, k=1, axis=3, largest=True, sorted=True)
    chosen = _last_nan(node, parts, node.field(found, 1))
    (_, each) = aten_type(windows).static_shape
    rows = node.shaped(node.call("multiply", node.line(prod(wanted)), each), prod(wanted), 1)
    where = node.call("take", node.shaped(windows, -1), node.call("add", chosen, rows), axis=0)
    return [node.shaped(v, *outer, *wanted) for v in (node.field(found, 0), where)]


def adaptive_max(rank: int) -> AtenRule:
    """As many largest elements along each spatial axis as are wanted, and their places."""

    def rule(node: AtenNode) -> Expr | list[Expr]:
        x, had = _batched(node, rank)
        shape = aten_type(x).shape
        wanted = node.spatial("output_size", rank)
        sizes = [d for d in shape[2:] if isinstance(d, int)]
        if len(sizes) < rank or 0 in sizes or min(wanted) < 1:
            raise node.unsupported(f"{aten_type(x)} to {wanted}: sizes that have to be numbers, and not 0,")
        if any(d % to for d, to in zip(sizes, wanted, strict=True)):
            return [_unbatched(node, v, had) for v in _unequal_windows(node, x, sizes, wanted)]
        size = tuple(d // to for d, to in zip(sizes, wanted, strict=True))
        zeros, ones = (0,) * rank, (1,) * rank
        y = node.call(f"nn.max_pool{rank}d", x, pool_size=size, strides=size, padding=zeros * 2)
        places = max_places(node, x, wanted, size, size, zeros, ones)
        return [_unbatched(node, v, had) for v in (y, node.cast(places, INT64))]

    return rule


TABLE: dict[str, AtenRule] = {
    **{f"avg_pool{r}d": average_pool(r) for r in (1, 2, 3)},
    **{f"max_pool{r}d": max_pool(r) for r in (1, 2, 3)},
    **{f"max_pool{r}d_with_indices": max_pool(r) for r in (1, 2, 3)},
    **{f"adaptive_avg_pool{r}d": adaptive_average(r) for r in (1, 2, 3)},
    **{f"_adaptive_avg_pool{r}d": adaptive_average(r) for r in (2, 3)},
    **{f"adaptive_max_pool{r}d": adaptive_max(r) for r in (1, 2, 3)},
}

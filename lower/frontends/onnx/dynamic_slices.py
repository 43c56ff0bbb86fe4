"""Slices whose ends only a run knows (specs/lower.md, "Import")."""

from __future__ import annotations

import numpy as np

from assay.lower.frontends.onnx.node import Node, tensor
from assay.semantics.dtypes import INT64
from assay.semantics.graph import Expr
from assay.semantics.ops.common import normalize_axes, normalize_axis


def needed(node: Node) -> bool:
    """Whether neither the import nor the caller's values say where the slices begin and end."""
    return any(node.builder.contents(node[k]) is None and node.builder.settled(node[k]) is None for k in (1, 2))


def cut(node: Node) -> Expr:
    """Slices with step 1: the elements from `starts` to before `ends`, both brought into 0 to the size of the axis.

    Each axis is read at the places begin, begin + 1, ...; how many there are the run measures.
    """
    x = node[0]
    rank = tensor(x).ndim
    starts, ends = (node.cast(node[k], INT64) for k in (1, 2))
    (count,) = tensor(starts).shape
    if not isinstance(count, int) or tensor(ends).shape != (count,):
        raise node.unsupported(f"starts is {tensor(starts)}, ends is {tensor(ends)}; as many numbers are wanted")
    axes = node.ints(3) if node.has(3) else tuple(range(count))
    if node.has(4) and set(node.ints(4)) != {1}:
        raise node.unsupported("steps other than 1 where only the run knows starts and ends")
    if len(axes) != count:
        raise node.wrong(f"{count} starts, {len(axes)} axes; as many are wanted")
    normalize_axes(str(node), axes, rank)
    for k, a in enumerate(axes):
        axis = normalize_axis(str(node), a, rank)
        size = node.call("take", node.call("shape_of", x), node.constant(np.array([axis])), axis=0)
        begin, end = (_inside(node, bound, k, size) for bound in (starts, ends))
        length = node.call("maximum", node.call("subtract", end, begin), node.constant(np.zeros(1, np.int64)))
        measured = node.cut_size(length)
        places = node.call("add", begin, node.call("arange", size=measured, dtype="int64"))
        x = node.named(node.call("take", x, places, axis=axis))
    return x


def _inside(node: Node, bounds: Expr, k: int, size: Expr) -> Expr:
    """One of the bounds, counted from the front and brought into the axis; a vector of one element."""
    bound = node.call("take", bounds, node.constant(np.array([k])), axis=0)
    zero = node.constant(np.zeros(1, np.int64))
    bound = node.call("where", node.call("less", bound, zero), node.call("add", bound, size), bound)
    return node.call("minimum", node.call("maximum", bound, zero), size)

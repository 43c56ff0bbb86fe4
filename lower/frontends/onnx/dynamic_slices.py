"""Slices whose ends only a run knows (specs/lower.md, "Import")."""

from __future__ import annotations

from assay.lower.frontends.onnx.node import Node, tensor
from assay.semantics.composed.terms import Term, line
from assay.semantics.dtypes import INT64
from assay.semantics.graph import Expr


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
    for k, axis in enumerate(node.axes(rank, axes)):
        size = _at(node, node.call("shape_of", x), axis)
        begin, end = (_inside(_at(node, bound, k), size) for bound in (starts, ends))
        measured = node.cut_size((end - begin).at_least(0).expr)
        places = begin + line(node, measured, INT64)
        x = node.named(node.call("take", x, places.expr, axis=axis))
    return x


def _at(node: Node, vector: Expr, place: int) -> Term:
    """An element of a vector, as a vector of one."""
    return Term(node, node.call("take", vector, node.constant([place], INT64), axis=0))


def _inside(bound: Term, size: Term) -> Term:
    """A bound counted from the front and brought into the axis."""
    return (bound + size).chosen(bound < 0, bound).at_least(0).at_most(size)

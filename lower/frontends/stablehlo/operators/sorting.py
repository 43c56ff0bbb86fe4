"""sort of StableHLO (specs/lower.md, "StableHLO").

Where the region is seen to compare whole numbers, or floats in their total order, elements are ordered by these
(`ordering.py`). Else whether an element stands before another is asked of the region for all pairs at once, and
elements are ordered by how many stand before them. That is right for every comparison that the specification allows.
"""

from __future__ import annotations

from collections.abc import Sequence

from assay.lower.frontends.stablehlo.node import HloNode, HloRule, tensor_of
from assay.lower.frontends.stablehlo.operators.ordering import Key, known_order
from assay.semantics import graph
from assay.semantics.dtypes import BOOL, INT64
from assay.semantics.graph import Expr
from assay.semantics.ops.sizes import product
from assay.semantics.scalar import Dim, simplify
from assay.semantics.tasks import Task

MOST_PAIRS = 1 << 12
"""Elements along the sorted axis whose pairs are compared at most, where the region is not seen to compare keys."""


def sort(node: HloNode) -> Task[list[Expr]]:
    """The operands with the elements of an axis in the order of the region."""
    node.operands(1, 1 << 10)
    xs = node.alike(*node.args)
    rank = tensor_of(xs[0]).ndim
    axis = node.number("dimension", default=-1)
    axis = axis + rank if axis < 0 else axis
    if not 0 <= axis < rank:
        raise node.wrong(f"dimension is {axis} of {rank} axes")
    order = (*(a for a in range(rank) if a != axis), axis)
    moved = [node.call("permute_dims", x, axes=order) for x in xs]
    *outer, size = tensor_of(moved[0]).shape
    if isinstance(size, int) and size <= 1:
        return xs
    keys = yield known_order(node, moved)
    if keys is not None:
        found = by_keys(node, keys, outer, size)
    elif not isinstance(size, int) or size > MOST_PAIRS:
        raise node.unsupported(
            f"a region that is not seen to compare keys, and {size} elements; {MOST_PAIRS} are the most"
        )
    else:
        found = yield from_pairs(node, moved, outer, size)
    where = taken_from(node, found, outer, size)
    back = [order.index(a) for a in range(rank)]
    done = [gathered(node, x, where) for x in moved]
    return [node.call("permute_dims", d, axes=tuple(back)) for d in done]


def get_second(value: Expr) -> Expr:
    """The second field of a tuple."""
    return graph.get(value, 1)


def by_keys(node: HloNode, keys: Sequence[Key], outer: Sequence[Dim], size: Dim) -> Expr:
    """For each place along the last axis the element that stands there after sorting by keys: by the last one first,
    then by each one before it, where equal ones stay in order; elements of which all keys are equal do so where the
    sort is stable."""
    found: Expr | None = None
    for key in reversed(keys):
        of = key.of if found is None else gathered(node, key.of, taken_from(node, found, outer, size))
        places = in_order(node, of, len(outer), largest=key.largest, stable=found is not None or is_stable(node))
        found = places if found is None else gathered(node, found, taken_from(node, places, outer, size))
    assert found is not None
    return found


def gathered(node: HloNode, x: Expr, where: Expr) -> Expr:
    """The elements of x at places of its row-major order."""
    return node.call("take", node.shaped(x, product(tensor_of(x).shape)), where, axis=0)


def from_pairs(node: HloNode, xs: Sequence[Expr], outer: Sequence[Dim], size: int) -> Task[Expr]:
    """For each place along the last axis the element that stands there after sorting."""
    sides: list[Expr] = []
    for x in xs:
        sides += [node.shaped(x, *outer, size, 1), node.shaped(x, *outer, 1, size)]
    (before,) = yield node.run_region(0, sides, True)
    if tensor_of(before).dtype is not BOOL:
        raise node.wrong("its region gives a bool")
    before = node.stretched(before, *outer, size, size)  # [i, j]: whether i stands before j
    ranks = node.call("sum", node.cast(before, INT64), axis=(len(outer),), keepdims=False)
    return in_order(node, ranks, len(outer), largest=False, stable=is_stable(node))


def in_order(node: HloNode, of: Expr, axis: int, *, largest: bool, stable: bool) -> Expr:
    """The places of all elements along an axis in their order."""
    size = tensor_of(of).shape[axis]
    return node.builder.named(get_second(node.call("topk", of, k=size, axis=axis, largest=largest, stable=stable)))


def is_stable(node: HloNode) -> bool:
    """Whether elements of which neither stands before the other stay in order."""
    return bool(node.attr("is_stable", False))


def taken_from(node: HloNode, places: Expr, outer: Sequence[Dim], size: Dim) -> Expr:
    """Places along the last axis as places of all elements in row-major order."""
    rows = node.call("multiply", node.line(simplify(product(outer))), node.amount(size))
    return node.call("add", places, node.shaped(rows, *outer, 1))


TABLE: dict[str, HloRule] = {"stablehlo.sort": sort}

"""sort of StableHLO (specs/lower.md, "StableHLO").

Whether an element stands before another is asked of the region for all pairs at once; how many stand before it is its
place. That is right for every comparison that the specification allows, and stable.
"""

from __future__ import annotations

from collections.abc import Sequence

from assay.lower.frontends.stablehlo.node import HloNode, HloRule, tensor_of
from assay.semantics import graph
from assay.semantics.dtypes import BOOL, INT64
from assay.semantics.graph import Expr
from assay.semantics.ops.sizes import product
from assay.semantics.scalar import Dim, simplify
from assay.semantics.tasks import Task

MOST_PAIRS = 1 << 12
"""Elements along the sorted axis whose pairs are compared at most, where the comparison is not one that is known."""


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
    largest = known_order(node, xs)
    if largest is not None:
        places = node.call("topk", moved[0], k=size, axis=rank - 1, largest=largest, sorted=True)
        found = node.builder.named(get_second(places))
    elif not isinstance(size, int) or size > MOST_PAIRS:
        raise node.unsupported(f"a region that is no plain comparison, and {size} elements; {MOST_PAIRS} are the most")
    else:
        found = yield from_pairs(node, moved, outer, size)
    where = taken_from(node, found, outer, size)
    back = [order.index(a) for a in range(rank)]
    done = [node.call("take", node.shaped(x, product((*outer, size))), where, axis=0) for x in moved]
    return [node.call("permute_dims", d, axes=tuple(back)) for d in done]


def get_second(value: Expr) -> Expr:
    """The second field of a tuple."""
    return graph.get(value, 1)


def known_order(node: HloNode, xs: Sequence[Expr]) -> bool | None:
    """Whether the region is one comparison of whole numbers of the first operand: False for the smallest first, True
    for the largest, None for another."""
    region = node.op.regions[0] if node.op.regions else None
    if region is None or len(region.body) != 2 or len(region.params) != 2 * len(xs):
        return None
    op, last = region.body
    names = [p.name for p in region.params[:2]]
    if op.name != "stablehlo.compare" or not tensor_of(xs[0]).dtype.is_integer:
        return None
    if [u.name for u in last.operands] != [n for n, _ in op.results] or [u.name for u in op.operands] != names:
        return None
    said = [str(getattr(w, "words", [w])[-1:]) for w in (*op.words, *op.attrs.values())]
    return False if "['LT']" in said or "LT" in op.words else True if "['GT']" in said or "GT" in op.words else None


def from_pairs(node: HloNode, xs: Sequence[Expr], outer: Sequence[Dim], size: int) -> Task[Expr]:
    """For each place along the last axis the element that stands there after sorting."""
    sides: list[Expr] = []
    for x in xs:
        sides += [node.shaped(x, *outer, size, 1), node.shaped(x, *outer, 1, size)]
    (before,) = yield node.run_region(0, sides, True)
    if tensor_of(before).dtype is not BOOL:
        raise node.wrong("its region gives a bool")
    before = node.stretched(before, *outer, size, size)  # [i, j]: whether i stands before j
    rank = len(outer)
    turned = node.call("permute_dims", before, axes=(*range(rank), rank + 1, rank))
    i = node.shaped(node.line(size), size, 1)
    tied = node.call("logical_not", node.call("logical_or", before, turned))
    first = node.call("logical_and", tied, node.call("less", i, node.line(size)))
    counts = node.cast(node.call("logical_or", before, first), INT64)
    places = node.call("sum", counts, axis=(rank,), keepdims=False)
    hit = node.call("equal", node.shaped(places, *outer, size, 1), node.line(size))
    return node.call("sum", node.call("multiply", node.cast(hit, INT64), i), axis=(rank,), keepdims=False)


def taken_from(node: HloNode, places: Expr, outer: Sequence[Dim], size: Dim) -> Expr:
    """Places along the last axis as places of all elements in row-major order."""
    rows = node.call("multiply", node.line(simplify(product(outer))), node.amount(size))
    return node.call("add", places, node.shaped(rows, *outer, 1))


TABLE: dict[str, HloRule] = {"stablehlo.sort": sort}

"""Bags of embeddings (specs/lower.md, "torch.export").

PyTorch: torch.nn.functional.embedding_bag, and aten/src/ATen/native/EmbeddingBag.cpp for NaN and for bags without rows.
"""

from __future__ import annotations

import math

from assay.lower.frontends.torch_export.node import AtenNode, AtenRule, aten_type
from assay.lower.frontends.torch_export.operators.elementwise import constant_like
from assay.lower.frontends.torch_export.operators.indexing import from_start
from assay.semantics.dtypes import INT64
from assay.semantics.graph import Expr
from assay.semantics.scalar import Dim, simplify

SUM, MEAN, MAX = range(3)


class Bags:
    """Which bag each index is in: one too many where it is in none, or is the one that is passed over."""

    def __init__(self, node: AtenNode, indices: Expr, offsets: Expr, passed: Dim | None) -> None:
        self.node = node
        self.size = aten_type(indices).shape[0]
        starts = aten_type(offsets).shape[0]
        self.count = simplify(starts - 1) if node.flag("include_last_offset") else starts
        # the last start at or before an index; of starts that are equal, that of the last bag
        line = node.line(self.size)
        begun = node.call("less_equal", node.shaped(offsets, 1, starts), node.shaped(line, self.size, 1))
        at = node.call("sum", node.cast(begun, INT64), axis=(1,), keepdims=False)
        self.of = node.call("subtract", at, 1)
        if passed is not None:
            left = node.call("equal", indices, node.amount(passed))
            self.of = node.call("where", left, node.amount(self.count), self.of)

    def gathered(self, empty: float, values: Expr, how: str) -> Expr:
        """The values of each index, met in its bag; `empty` where there are none."""
        node, of = self.node, aten_type(values)
        start = node.full((simplify(self.count + 1), *of.shape[1:]), empty, of.dtype)
        places = node.shaped(self.of, self.size, 1)
        return node.cut(node.call("scatter_nd", start, places, values, reduction=how), 0, 0, self.count)

    def counts(self) -> Expr:
        """How many indices are in each bag."""
        return self.gathered(0, self.node.full((self.size,), 1, INT64), "add")

    def firsts(self) -> Expr:
        """Whether each index is the first of its bag."""
        node, line = self.node, self.node.line(self.size)
        start = node.stretched(node.amount(self.size), simplify(self.count + 1))
        first = node.call("scatter_nd", start, node.shaped(self.of, self.size, 1), line, reduction="min")
        return node.call("equal", node.call("take", first, self.of, axis=0), line)


def embedding_bag(node: AtenNode) -> list[Expr]:
    """The sum, mean or largest of the rows of each bag of indices, and three results that only gradients look at,
    whose elements are left open."""
    weight = node.tensor("weight")
    indices, offsets = (node.cast(node.tensor(n), INT64) for n in ("indices", "offsets"))
    if (aten_type(weight).ndim, aten_type(indices).ndim, aten_type(offsets).ndim) != (2, 1, 1):
        raise node.wrong(
            f"weight is {weight.type}, indices are {indices.type}, offsets are {offsets.type}; a matrix and two vectors"
            " are wanted"
        )
    mode, own = node.whole("mode", 0), node.optional("per_sample_weights")
    if mode not in (SUM, MEAN, MAX) or own is not None and mode != SUM:
        raise node.wrong(f"mode is {mode}{' with per_sample_weights' if own is not None else ''}")
    bags = Bags(node, indices, offsets, _passed(node, aten_type(weight).shape[0]))
    to = aten_type(weight).dtype
    rows = node.work(node.call("take", weight, from_start(node, indices, aten_type(weight).shape[0]), axis=0))
    if own is not None:
        rows = node.call("multiply", rows, node.shaped(node.work(own), bags.size, 1))
    if mode == MAX:
        y = _largest(node, bags, rows)
    else:
        y = bags.gathered(0, rows, "add")
    if mode == MEAN:
        count = node.call("maximum", bags.counts(), 1)
        y = node.call("divide", y, node.shaped(node.cast(count, aten_type(y).dtype), bags.count, 1))
    return [node.cast(y, to), *(_open(node, k) for k in range(1, len(node.declared)))]


def _passed(node: AtenNode, rows: Dim) -> Dim | None:
    """The index that no bag counts. -1 is none, but where an overload has None for that."""
    if not node.has("padding_idx"):
        return None
    found = node.whole("padding_idx")
    if found >= 0:
        return found
    return simplify(rows + found) if node.overload == "padding_idx" else None


def _largest(node: AtenNode, bags: Bags, rows: Expr) -> Expr:
    """The largest element of each column: an element takes the place of another where it is above it, so NaN stays
    where it is first, and is passed over behind that."""
    count = aten_type(rows).shape[0]
    nan = node.call("not_equal", rows, rows)
    behind = node.call("logical_and", nan, node.shaped(node.call("logical_not", bags.firsts()), count, 1))
    rows = node.call("where", behind, constant_like(node, -math.inf, rows), rows)
    y = bags.gathered(-math.inf, rows, "max")
    empty = node.shaped(node.call("equal", bags.counts(), 0), bags.count, 1)
    return node.call("where", empty, constant_like(node, 0, y), y)


def _open(node: AtenNode, index: int) -> Expr:
    of = node.declared[index]
    if of is None:
        return node.constant(0, INT64)
    return node.cast(node.full(of.shape, math.nan, aten_type(node.tensor("weight")).dtype), of.dtype)


TABLE: dict[str, AtenRule] = {
    "_embedding_bag": embedding_bag,
    "_embedding_bag_forward_only": embedding_bag,
    "embedding_bag": embedding_bag,
}

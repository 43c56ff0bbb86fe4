"""Gathers and scatters of ATen (specs/lower.md, "torch.export").

PyTorch: https://docs.pytorch.org/docs/stable/torch.html#indexing-slicing-joining-mutating-ops. A place outside of an
axis traps; a negative one counts from the end, where PyTorch allows it.
"""

from __future__ import annotations

from collections.abc import Sequence

from assay.lower.frontends.stretching import claimed
from assay.lower.frontends.torch_export.node import AtenNode, AtenRule, aten_type, truth
from assay.semantics.composed.searching import searched
from assay.semantics.dtypes import BOOL, DTYPES, INT64, DType
from assay.semantics.graph import Constant, Expr, Var
from assay.semantics.ops.sizes import product
from assay.semantics.scalar import Dim


def counted(node: AtenNode, shape: Sequence[Dim], axis: int) -> Expr:
    """For each element of a tensor of that shape its place along an axis."""
    return node.stretched(node.along(node.line(shape[axis]), axis, len(shape)), *shape)


def tuples(node: AtenNode, places: Sequence[Expr]) -> Expr:
    """Places along axes as index tuples, along a last axis."""
    shape = aten_type(places[0]).shape
    parts = [node.shaped(node.cast(p, INT64), *shape, 1) for p in places]
    return node.call("concat", *parts, axis=len(shape)) if len(parts) > 1 else parts[0]


def elements_at(node: AtenNode, indices: Expr, axis: int) -> Expr:
    """Index tuples: `indices` along an axis, each element's own place along the others."""
    shape = aten_type(indices).shape
    return tuples(node, [indices if a == axis else counted(node, shape, a) for a in range(len(shape))])


def from_start(node: AtenNode, places: Expr, size: Dim) -> Expr:
    """Places along an axis of which a negative one traps, as one beyond the end does."""
    known = places.data if isinstance(places, Constant) else None
    if aten_type(places).dtype.kind != "int" or (known is not None and not (known < 0).any()):
        return places
    places = node.cast(places, INT64)
    return node.call("where", node.call("less", places, 0), node.amount(size), places)


def gather(node: AtenNode) -> Expr:
    """The elements at places along an axis, and at the same place along the others."""
    x, index = node.tensor(), node.tensor("index")
    axis = node.axis(aten_type(x).ndim)
    if not aten_type(x).ndim:
        return node.shaped(x, *aten_type(index).shape)
    places = from_start(node, index, aten_type(x).shape[axis])
    return node.call("gather_nd", x, elements_at(node, places, axis))


# --- indices of several axes


def places_of(node: AtenNode, mask: Expr) -> list[Expr]:
    """Where a mask holds, along each axis; as many as only a run knows."""
    rank = aten_type(mask).ndim
    found = node.call("nonzero", mask)
    (size,) = node.builder.measured(node.field(found, 1), "found")
    rows = node.cut(node.field(found, 0), 1, 0, size)
    rows = claimed(node.builder, rows, (rank, size), node.builder.span)
    return [node.call("take", rows, node.constant(a, INT64), axis=0) for a in range(rank)]


def nonzero(node: AtenNode) -> Expr:
    """The places of elements that are not 0, a row for each."""
    x = node.tensor()
    if not aten_type(x).ndim:
        raise node.unsupported("a scalar")
    places = places_of(node, truth(node, x))
    count = aten_type(places[0]).shape[0]
    return (
        node.call("concat", *(node.shaped(p, count, 1) for p in places), axis=1)
        if len(places) > 1
        else node.shaped(places[0], count, 1)
    )


def where(node: AtenNode) -> Expr | list[Expr]:
    """x where the condition holds, else y; of a condition alone its places, a vector for each axis."""
    condition = truth(node, node.tensor("condition"))
    if "self" not in node.args and "other" not in node.args:
        if not aten_type(condition).ndim:
            raise node.unsupported("a scalar")
        return places_of(node, condition)
    a, b = node.together(node.operand("self"), node.operand("other"))
    return node.call("where", condition, a, b)


def masked_select(node: AtenNode) -> Expr:
    """The elements where a mask holds."""
    x, mask = node.tensor(), truth(node, node.tensor("mask"))
    both = node.call("logical_and", mask, node.call("equal", node.line(1), 0))
    shape = aten_type(node.call("where", both, x, x)).shape
    x, mask = node.stretched(x, *shape), node.stretched(mask, *shape)
    return node.call("gather_nd", x, tuples(node, places_of(node, mask)))


class Indexed:
    """A tensor with index tensors for some of its axes: those axes first, the others behind."""

    def __init__(self, node: AtenNode, x: Expr, given: Sequence[Expr | None]) -> None:
        self.node = node
        indices: list[Expr | None] = []
        for i in given:
            if i is not None and aten_type(i).dtype is BOOL:
                indices += places_of(node, i)
            else:
                indices.append(i)
        rank = aten_type(x).ndim
        self.axes = [a for a, i in enumerate(indices) if i is not None]
        self.rest = [a for a in range(rank) if a not in self.axes]
        there = [i for i in indices if i is not None]
        if not there or len(indices) > rank:
            raise node.wrong(f"{len(indices)} indices for {x.type}")
        total: Expr = node.cast(there[0], INT64)
        for i in there[1:]:
            total = node.call("add", total, node.cast(i, INT64))
        self.shape = aten_type(total).shape
        self.where = tuples(node, [node.stretched(node.cast(i, INT64), *self.shape) for i in there])
        self.moved = node.permuted(x, (*self.axes, *self.rest))
        neighbours = self.axes == list(range(self.axes[0], self.axes[-1] + 1))
        self.front = self.axes[0] if neighbours else 0

    @property
    def order(self) -> list[int]:
        """The axes of the result, of a tensor that has the axes of the indices first: these stand where the axes that
        are indexed stood, if those are neighbours."""
        count = len(self.shape)
        rest = list(range(count, count + len(self.rest)))
        return [*rest[: self.front], *range(count), *rest[self.front :]]


def index(node: AtenNode) -> Expr:
    """The slices at index tensors, as NumPy's advanced indexing."""
    found = Indexed(node, node.tensor(), node.get("indices"))
    return node.permuted(node.call("gather_nd", found.moved, found.where), found.order)


def index_put(node: AtenNode) -> Expr:
    """With values at index tensors, in place of what is there or added to it."""
    x, given, values = node.tensor(), node.get("indices"), node.tensor("values")
    of = aten_type(x)
    there = [i for i in given if i is not None]
    values = node.cast(values, of.dtype)
    if len(given) == 1 and aten_type(there[0]).dtype is BOOL and product(aten_type(values).shape) == 1:
        mask = there[0]
        mask = node.shaped(mask, *aten_type(mask).shape, *(1,) * (of.ndim - aten_type(mask).ndim))
        value = node.shaped(values)
        value = node.call("add", x, value) if node.flag("accumulate") else value
        return node.call("where", mask, value, x)
    found = Indexed(node, x, given)
    sizes = aten_type(found.moved).shape
    shape = [*found.shape, *sizes[len(found.axes) :]]
    values = node.stretched(values, *(shape[a] for a in found.order))
    values = node.permuted(values, [found.order.index(a) for a in range(len(shape))])
    how = "add" if node.flag("accumulate") else "none"
    made = scattered(node, found.moved, found.where, values, how)
    order = [*found.axes, *found.rest]
    return node.permuted(made, [order.index(a) for a in range(of.ndim)])


def scattered(node: AtenNode, x: Expr, where: Expr, updates: Expr, how: str) -> Expr:
    """scatter_nd; of bools, which have no sums, by whole numbers."""
    if aten_type(x).dtype is BOOL and how != "none":
        work = DTYPES["int32"]
        made = node.call("scatter_nd", node.cast(x, work), where, node.cast(updates, work), reduction=how)
        return node.call("not_equal", made, 0)
    return node.call("scatter_nd", x, where, updates, reduction=how)


# --- along an axis


def index_select(node: AtenNode) -> Expr:
    """The slices at places along an axis."""
    x, places = node.tensor(), node.tensor("index")
    axis = node.axis(aten_type(x).ndim)
    x = x if aten_type(x).ndim else node.shaped(x, 1)
    places = from_start(node, places, aten_type(x).shape[axis])
    made = node.call("take", x, node.shaped(places, -1), axis=axis)
    return made if aten_type(node.tensor()).ndim else node.shaped(made)


def masked_scatter(node: AtenNode) -> Expr:
    """The elements of a source, one after another, where a mask holds. A run in which there are too few traps."""
    x, mask, source = node.tensor(), truth(node, node.tensor("mask")), node.tensor("source")
    of = aten_type(source)
    if 0 in of.shape:
        raise node.unsupported("a source without elements")
    shape = aten_type(node.call("where", mask, x, x)).shape
    x, mask = node.stretched(x, *shape), node.stretched(mask, *shape)
    held = node.shaped(node.cast(mask, INT64), product(shape))
    place = node.call("multiply", node.call("subtract", node.call("cumsum", held, axis=0), 1), held)
    taken = node.call("take", node.shaped(source, product(of.shape)), place, axis=0)
    return node.call("where", mask, node.cast(node.shaped(taken, *shape), aten_type(x).dtype), x)


def index_update(how: str) -> AtenRule:
    """Slices put, added or filled in at places along an axis."""

    def rule(node: AtenNode) -> Expr:
        x, places = node.tensor(), node.shaped(node.tensor("index"), -1)
        of = aten_type(x)
        axis = node.axis(of.ndim)
        order = [axis, *(a for a in range(of.ndim) if a != axis)]
        count = aten_type(places).shape[0]
        if how == "fill":  # which counts from the end
            source = node.full([count, *(of.shape[a] for a in order[1:])], node.operand("value"), of.dtype)
        else:
            places = from_start(node, places, of.shape[axis])
            source = node.cast(node.tensor("source"), of.dtype)
            source = node.permuted(source if aten_type(source).ndim else node.shaped(source, 1), order)
            if how == "add" and node.get("alpha", 1) != 1:
                source = node.call("multiply", source, node.as_tensor(node.get("alpha"), of.dtype))
        where = node.shaped(node.cast(places, INT64), count, 1)
        made = scattered(node, node.permuted(x, order), where, source, "add" if how == "add" else "none")
        return node.permuted(made, [order.index(a) for a in range(of.ndim)])

    return rule


REDUCED = {"add": "add", "sum": "add", "multiply": "mul", "prod": "mul", "amax": "max", "amin": "min"}


def scatter(node: AtenNode) -> Expr:
    """With elements put at places along an axis, or met with what is there."""
    x, indices = node.tensor(), node.tensor("index")
    of = aten_type(x)
    axis = node.axis(of.ndim)
    shape = aten_type(indices).shape
    reduce = "add" if node.name == "scatter_add" else node.get("reduce", None)
    if "value" in node.args:
        source = node.full(shape, node.operand("value"), of.dtype)
    else:
        source = node.cast(node.tensor("src"), of.dtype)
        for a, d in enumerate(shape):
            if aten_type(source).shape[a] is not d and aten_type(source).shape[a] != d:
                source = node.cut(source, a, 0, d)
    if not of.ndim:
        x, indices, source = (node.shaped(v, 1) for v in (x, indices, source))
    where = elements_at(node, from_start(node, indices, aten_type(x).shape[axis]), axis)
    if reduce is None:
        made = scattered(node, x, where, source, "none")
    else:
        made = reduced(node, x, where, source, str(reduce))
    return made if of.ndim else node.shaped(made)


def _mean(node: AtenNode, x: Expr, where: Expr, source: Expr) -> Expr:
    """Sums divided by how many were added; a mean of whole numbers is rounded down."""
    of, own = aten_type(x), node.flag("include_self", True)
    total = reduced(node, x, where, source, "sum")
    ones = node.full(aten_type(source).shape, 1, of.dtype)
    counts = scattered(node, node.full(of.shape, int(own), of.dtype), where, ones, "add")
    counts = node.call("maximum", counts, 1)
    return node.call("divide" if of.dtype.is_float else "floor_divide", total, counts)


def reduced(node: AtenNode, x: Expr, where: Expr, source: Expr, reduce: str) -> Expr:
    """With updates met with what is there: their sum, product, mean, or the largest or smallest."""
    if reduce == "mean" and aten_type(x).dtype is not BOOL:
        return _mean(node, x, where, source)
    if reduce not in REDUCED:
        raise node.unsupported(f"reduce = {reduce}")
    of = aten_type(x).dtype
    how = REDUCED[reduce]
    if not node.flag("include_self", True):
        neutral = node.stretched(node.as_tensor(_neutral(how, of), of), *aten_type(source).shape)
        x = scattered(node, x, where, neutral, "none")
    return scattered(node, x, where, source, how)


def _neutral(how: str, of: DType) -> float:
    if how in ("add", "mul"):
        return 0 if how == "add" else 1
    if of.is_float:
        return float("-inf") if how == "max" else float("inf")
    return int(of.min) if how == "max" else int(of.max)


def embedding(node: AtenNode) -> Expr:
    """The rows of the weight at indices."""
    weight = node.tensor("weight")
    return node.call("take", weight, from_start(node, node.tensor("indices"), aten_type(weight).shape[0]), axis=0)


def take(node: AtenNode) -> Expr:
    """The elements at places of the row-major order."""
    x = node.tensor()
    return node.call("take", node.shaped(x, product(aten_type(x).shape)), node.tensor("index"), axis=0)


def ascending(node: AtenNode, edges: Expr) -> Expr | None:
    """Whether the elements along the last axis ascend, those that are equal among them: what comes of a search is
    undefined where they do not. None where they are known to."""
    axis, count = aten_type(edges).ndim - 1, aten_type(edges).shape[-1]
    known = node.builder.values.get(edges, edges) if isinstance(edges, Var) else edges
    if isinstance(known, Constant) and bool((known.data[..., :-1] <= known.data[..., 1:]).all()):
        return None
    if isinstance(count, int) and count < 2:
        return None
    return node.every(node.call("less_equal", node.cut(edges, axis, 0, -1), node.cut(edges, axis, 1, count)))


def bucketize(node: AtenNode) -> Expr:
    """How many of ascending boundaries are below each number; `right`: at most it. PyTorch leaves undefined what others
    give: that they ascend is asserted, where it is not known."""
    searches = node.name == "searchsorted"
    edges = node.tensor("sorted_sequence" if searches else "boundaries")
    given = node.operand("self")
    x = node.as_tensor(given, node.promoted(given)) if not isinstance(given, Expr) else given
    if node.has("sorter"):
        raise node.unsupported("a sorter")
    right = node.flag("right") or node.get("side", None) == "right"
    holds = ascending(node, edges)
    if holds is not None:
        node.require(holds, "the boundaries do not ascend")
    x, edges = node.together(x, edges)
    if aten_type(edges).ndim > 1:  # each row of numbers has its own
        *outer, count = aten_type(edges).shape
        edges = node.shaped(edges, *outer, 1, count)
    total = searched(node, edges, node.shaped(x, *aten_type(x).shape, 1), right)
    return node.cast(total, node.result().dtype)


def item(node: AtenNode) -> object:
    """The element of a tensor of one: a size that only a run knows, or a number, as one that may be below 0 is."""
    x = node.tensor()
    of = aten_type(x).dtype
    if not of.is_integer or not node.is_size:
        return node.shaped(x if of.is_float or of is BOOL else node.cast(x, INT64))
    (size,) = node.builder.measured(node.shaped(node.cast(x, INT64), 1), "item")
    return size


TABLE: dict[str, AtenRule] = {
    "_index_put_impl": index_put,
    "_local_scalar_dense": item,
    "argwhere": nonzero,
    "bucketize": bucketize,
    "embedding": embedding,
    "gather": gather,
    "index": index,
    "index_add": index_update("add"),
    "index_copy": index_update("put"),
    "index_fill": index_update("fill"),
    "index_put": index_put,
    "index_select": index_select,
    "item": item,
    "masked_scatter": masked_scatter,
    "masked_select": masked_select,
    "nonzero": nonzero,
    "scatter": scatter,
    "scatter_add": scatter,
    "scatter_reduce": scatter,
    "searchsorted": bucketize,
    "take": take,
    "_unsafe_index": index,
    "where": where,
}

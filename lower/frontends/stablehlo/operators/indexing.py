"""Operations of StableHLO that read or write at computed places (specs/lower.md, "StableHLO").

Places are computed as whole numbers of int64, of the elements in row-major order. What is outside of the result of a
scatter goes to one element more, which is cut off again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assay.lower.frontends.stablehlo.node import HloNode, HloRule, tensor_of
from assay.lower.frontends.stablehlo.operators.loops import counted_loop
from assay.lower.frontends.stablehlo.operators.movement import computed_shape
from assay.lower.frontends.stablehlo.operators.reduction import recognised
from assay.semantics.dtypes import BOOL, DTYPES, INT64
from assay.semantics.graph import Expr, Var
from assay.semantics.ops.sizes import product
from assay.semantics.scalar import Dim, provably_equal, simplify
from assay.semantics.tasks import Task

FAR = 1 << 61
"""A place further away is brought here: it is outside of everything, and sums with it do not wrap."""


def as_place(node: HloNode, index: Expr) -> Expr:
    """Indices of any type of whole numbers as int64."""
    of = tensor_of(index).dtype
    if not of.is_integer:
        raise node.wrong(f"an index is {index.type}; whole numbers are wanted")
    if of.bits < 64:
        return node.cast(index, INT64)
    if of.kind == "uint":
        return node.cast(node.call("minimum", index, FAR), INT64)
    return node.call("minimum", node.call("maximum", index, -FAR), FAR)


def clamped(node: HloNode, index: Expr, size: Dim, taken: Dim) -> Expr:
    """A start that is moved so that what is taken lies within an axis."""
    last = node.amount(simplify(size - taken))
    return node.call("maximum", node.call("minimum", as_place(node, index), last), 0)


# --- dynamic slices ---------------------------------------------------------------------------------------------------


def dynamic_slice(node: HloNode) -> Expr:
    """Elements from computed starts on, which are moved so that all lie within the operand."""
    node.operands(1, 64)
    x, *starts = node.args
    sizes = node.ints("slice_sizes", "sizes")
    if not len(starts) == len(sizes) == tensor_of(x).ndim:
        raise node.wrong(f"{len(starts)} starts and {len(sizes)} sizes for an operand {x.type}")
    for a, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        whole = tensor_of(x).shape[a]
        if size < 0 or (isinstance(whole, int) and size > whole):
            raise node.wrong(f"{size} elements of an axis of size {whole}")
        if not provably_equal(size, whole):
            first = clamped(node, node.shaped(start), whole, size)
            x = node.call("take", x, node.call("add", first, node.line(size)), axis=a)
    return x


def dynamic_update_slice(node: HloNode) -> Expr:
    """The operand with an update from computed starts on, which are moved so that all of it lies within the operand."""
    node.operands(2, 64)
    x, update, *starts = node.args
    shape = tensor_of(x).shape
    if not len(starts) == len(shape) == tensor_of(update).ndim:
        raise node.wrong(f"{len(starts)} starts for an operand {x.type} and an update {update.type}")
    inside: Expr | None = None
    for a, start in enumerate(starts):
        size, part = shape[a], tensor_of(update).shape[a]
        if isinstance(part, int) and part == 0:
            return x
        if provably_equal(size, part):
            continue
        offset = node.call("subtract", node.line(size), clamped(node, node.shaped(start), size, part))
        last = node.amount(simplify(part - 1))
        within = node.call("equal", node.call("maximum", node.call("minimum", offset, last), 0), offset)
        places = node.call("maximum", node.call("minimum", offset, last), 0)
        update = node.call("take", update, places, axis=a)
        within = node.shaped(within, *(size if b == a else 1 for b in range(len(shape))))
        inside = within if inside is None else node.call("logical_and", inside, within)
    return update if inside is None else node.call("where", inside, update, x)


# --- places -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Window:
    """The numbers of a gather or a scatter: which axes of the operand have a window, in order; which axes of the result
    or the update are those of the window; what the parts of an index vector speak of."""

    operand: tuple[Dim, ...]
    axes: tuple[int, ...]
    at: tuple[int, ...]
    sizes: tuple[Dim, ...]
    index_map: tuple[int, ...]
    batching: tuple[int, ...]
    index_batching: tuple[int, ...]
    vector: int


def index_places(node: HloNode, w: Window, indices: Expr, shape: Sequence[Dim], clamp: bool) -> list[Expr]:
    """For each axis of the operand the place that each element of a result or an update of that shape is at."""
    rank, of = len(shape), tensor_of(indices)
    batch = [a for a in range(rank) if a not in w.at]
    kept = [d for a, d in enumerate(of.shape) if a != w.vector]
    if len(kept) != len(batch):
        raise node.wrong(f"indices {of} with their vector in axis {w.vector} for {len(batch)} axes")
    parts = of.shape[w.vector] if w.vector < of.ndim else 1
    if not provably_equal(parts, len(w.index_map)):
        raise node.wrong(f"an index has {parts} parts, of which each speaks of one of the axes {w.index_map}")

    def put(x: Expr) -> Expr:
        sizes = iter(kept)
        return node.shaped(x, *(next(sizes) if a in batch else 1 for a in range(rank)))

    found: list[Expr] = []
    for axis, size in enumerate(w.operand):
        k = w.axes.index(axis) if axis in w.axes else -1
        taken = w.sizes[k] if k >= 0 else 1
        place: Expr = node.constant(0, INT64)
        if axis in w.index_map:
            part = w.index_map.index(axis)
            start = node.take_axis(indices, part, w.vector) if w.vector < of.ndim else indices
            place = put(clamped(node, start, size, taken) if clamp else as_place(node, start))
        elif axis in w.batching:
            other = w.index_batching[w.batching.index(axis)]
            column = batch[other - (other > w.vector)]
            place = node.shaped(node.line(size), *(size if a == column else 1 for a in range(rank)))
        if k >= 0 and not (isinstance(taken, int) and taken == 1):
            line = node.shaped(node.line(taken), *(taken if a == w.at[k] else 1 for a in range(rank)))
            place = node.call("add", place, line)
        found.append(place)
    return found


def flat(node: HloNode, places: Sequence[Expr], sizes: Sequence[Dim]) -> Expr:
    """Places along axes as one place in row-major order."""
    total: Expr = node.constant(0, INT64)
    for k, place in enumerate(places):
        step = product(sizes[k + 1 :])
        scaled = place if isinstance(step, int) and step == 1 else node.call("multiply", place, node.amount(step))
        total = scaled if k == 0 else node.call("add", total, scaled)
    return total


# --- gather -----------------------------------------------------------------------------------------------------------


def gather(node: HloNode) -> Expr:
    """Windows of the operand at starts that indices say; starts are moved so that windows lie within the operand."""
    dynamic = node.op.name == "stablehlo.dynamic_gather"
    node.operands(3 if dynamic else 2)
    x, indices = node.args[:2]
    numbers, of = node.fields("dimension_numbers"), tensor_of(x)
    sizes: tuple[Dim, ...] = computed_shape(node, 2) if dynamic else node.ints("slice_sizes")
    collapsed = node.field(numbers, "collapsed_slice_dims", of.ndim, sort=True)
    batching = node.field(numbers, "operand_batching_dims", of.ndim, sort=True)
    axes = tuple(a for a in range(of.ndim) if a not in (*collapsed, *batching))
    rank = len(tensor_of(indices).shape) + len(axes)
    at = node.field(numbers, "offset_dims", rank, sort=True)
    vector = numbers.fields.get("index_vector_dim", 0)
    if len(sizes) != of.ndim or len(at) != len(axes) or not isinstance(vector, int):
        raise node.wrong(f"slice_sizes {sizes} and offset_dims {at} for an operand {of}")
    if not 0 <= vector <= tensor_of(indices).ndim:
        raise node.wrong(f"index_vector_dim is {vector} for indices {indices.type}")
    for s, d in zip(sizes, of.shape, strict=True):
        if isinstance(s, int) and isinstance(d, int) and not 0 <= s <= d:
            raise node.wrong(f"slice_sizes {sizes} for an operand {of}")
    window = Window(
        of.shape, axes, at, tuple(sizes[a] for a in axes), node.field(numbers, "start_index_map", of.ndim), batching,
        node.field(numbers, "start_indices_batching_dims", tensor_of(indices).ndim), vector,
    )  # fmt: skip
    if len(window.batching) != len(window.index_batching):
        raise node.wrong("operand_batching_dims and start_indices_batching_dims are as many")
    kept = iter([d for a, d in enumerate(tensor_of(indices).shape) if a != vector])
    offsets = dict(zip(at, window.sizes, strict=True))
    count = len(at) + tensor_of(indices).ndim - (vector < tensor_of(indices).ndim)
    shape = [offsets[a] if a in offsets else next(kept) for a in range(count)]
    places = index_places(node, window, indices, shape, clamp=True)
    where = node.stretched(flat(node, places, of.shape), *shape)
    return node.call("take", node.shaped(x, product(of.shape)), where, axis=0)


# --- scatter ----------------------------------------------------------------------------------------------------------


def scatter(node: HloNode) -> Task[list[Expr]]:
    """The operands with updates, which meet what is there by the region; updates that lie outside do nothing.

    The order of the updates is implementation-defined; here it is row-major.
    """
    count = (len(node.args) - 1) // 2
    if count < 1 or len(node.args) != 2 * count + 1:
        raise node.wrong("as many updates as operands, and indices between them, are wanted")
    node.operands(2 * count + 1)
    xs, indices, updates = node.alike(*node.args[:count]), node.args[count], node.alike(*node.args[count + 1 :])
    numbers, of = node.fields("scatter_dimension_numbers"), tensor_of(xs[0])
    inserted = node.field(numbers, "inserted_window_dims", of.ndim, sort=True)
    batching = node.field(numbers, "input_batching_dims", of.ndim, sort=True)
    axes = tuple(a for a in range(of.ndim) if a not in (*inserted, *batching))
    shape = tensor_of(updates[0]).shape
    at = node.field(numbers, "update_window_dims", len(shape), sort=True)
    vector = numbers.fields.get("index_vector_dim", 0)
    if len(at) != len(axes) or not isinstance(vector, int) or not 0 <= vector <= tensor_of(indices).ndim:
        raise node.wrong(f"update_window_dims {at} and inserted_window_dims {inserted} for an operand {of}")
    window = Window(
        of.shape, axes, at, tuple(shape[a] for a in at), node.field(numbers, "scatter_dims_to_operand_dims", of.ndim),
        batching, node.field(numbers, "scatter_indices_batching_dims", tensor_of(indices).ndim), vector,
    )  # fmt: skip
    if len(window.batching) != len(window.index_batching):
        raise node.wrong("input_batching_dims and scatter_indices_batching_dims are as many")
    kept = iter([d for a, d in enumerate(tensor_of(indices).shape) if a != vector])
    wanted = [d if a in at else next(kept, d) for a, d in enumerate(shape)]
    updates = [node.claimed(u, wanted) for u in updates]
    places = index_places(node, window, indices, wanted, clamp=False)
    where = node.stretched(inside_or_behind(node, places, of.shape), *wanted)
    return (yield from scattered(node, xs, where, updates))


def inside_or_behind(node: HloNode, places: Sequence[Expr], sizes: Sequence[Dim]) -> Expr:
    """The place in row-major order; the one behind all elements where it is outside along an axis."""
    inside: Expr | None = None
    for place, size in zip(places, sizes, strict=True):
        within = node.call("logical_and", node.call("greater_equal", place, 0),
                           node.call("less", place, node.amount(size)))  # fmt: skip
        inside = within if inside is None else node.call("logical_and", inside, within)
    where = flat(node, places, sizes)
    return where if inside is None else node.call("where", inside, where, node.amount(product(sizes)))


def scattered(
    node: HloNode, xs: Sequence[Expr], where: Expr, updates: Sequence[Expr], region: int = 0
) -> Task[list[Expr]]:
    """Tensors with updates at places in row-major order, of which one may be behind all elements."""
    shape = tensor_of(xs[0]).shape
    total, count = product(shape), product(tensor_of(where).shape)
    where = node.shaped(where, count)
    extra = [node.call("concat", node.shaped(x, total), node.constant([0], tensor_of(x).dtype), axis=0) for x in xs]
    given = [node.shaped(u, count) for u in updates]
    for x, u in zip(xs, updates, strict=True):
        if tensor_of(x).dtype is not tensor_of(u).dtype:
            raise node.wrong(f"an update is {u.type} for an operand {x.type}")
    how = recognised(node, tensor_of(xs[0]).dtype, region) if len(xs) == 1 else ""
    if how:
        done = [at_once(node, extra[0], where, given[0], how)]
    else:
        done = yield one_by_one(node, extra, where, given, count, region)
    return [node.shaped(node.cut(d, 0, 0, total), *shape) for d in done]


def at_once(node: HloNode, x: Expr, where: Expr, update: Expr, how: str) -> Expr:
    """The updates of a vector by an operator of ours."""
    of = tensor_of(x).dtype
    index = node.shaped(where, *tensor_of(where).shape, 1)
    if how == "second":
        return node.call("scatter_nd", x, index, update, reduction="none")
    if of is BOOL:
        parts = (node.cast(e, DTYPES["uint8"]) for e in (x, update))
        x, update = parts
        return node.call("equal", node.call("scatter_nd", x, index, update, reduction=how), 1)
    return node.call("scatter_nd", x, index, update, reduction=how)


def one_by_one(
    node: HloNode, xs: Sequence[Expr], where: Expr, updates: Sequence[Expr], count: Dim, region: int
) -> Task[list[Expr]]:
    """The updates of vectors, one after another, by the region."""

    def update(k: Var, states: Sequence[Var]) -> Task[Sequence[Expr]]:
        place = node.call("take", where, k, axis=0)
        old = [node.call("take", s, place, axis=0) for s in states]
        new = yield node.run_region(region, [*old, *(node.call("take", u, k, axis=0) for u in updates)])
        if len(new) != len(xs):
            raise node.wrong(f"its region gives {len(new)} values; {len(xs)} are wanted")
        index = node.shaped(place, 1, 1)
        return [
            node.call("scatter_nd", s, index, node.shaped(n, 1), reduction="none")
            for s, n in zip(states, new, strict=True)
        ]

    return (yield from counted_loop(node, count, xs, update))


TABLE: dict[str, HloRule] = {
    "stablehlo.dynamic_gather": gather,
    "stablehlo.dynamic_slice": dynamic_slice,
    "stablehlo.dynamic_update_slice": dynamic_update_slice,
    "stablehlo.gather": gather,
    "stablehlo.scatter": scatter,
}

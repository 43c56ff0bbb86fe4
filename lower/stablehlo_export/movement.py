"""Movement and creation as StableHLO (specs/lower.md, "Export")."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np

from assay.lower.stablehlo_export.use import HloExportRule, HloResults, HloUse
from assay.lower.stablehlo_export.writer import HloValue, ints_text, numbers_of
from assay.semantics.dtypes import INT64, dtype
from assay.semantics.ops.sizes import larger, slice_places
from assay.semantics.scalar import Dim, simplify


def reshaped(use: HloUse) -> HloValue:
    """Export reshape, squeeze and expand_dims: the same elements in row-major order."""
    return use.shaped(use.args[0], use.shape)


def permute_dims(use: HloUse) -> HloValue:
    """Export permute_dims as transpose."""
    axes = use.attrs["axes"]
    order = range(use.rank)[::-1] if axes is None else [a % use.rank for a in axes]
    return use.ordered(use.args[0], list(order))


def strided_slice(use: HloUse) -> HloValue:
    """What is taken backwards is taken forwards and turned; where a size is no number, turned and taken forwards."""
    (x,) = use.args
    axes = [a % use.rank for a in use.attrs["axes"]]
    steps = use.attrs["strides"] or (1,) * len(axes)
    for axis, begin, end, step in zip(axes, use.attrs["begin"], use.attrs["end"], steps, strict=True):
        size, begin, end = x.shape[axis], simplify(begin), simplify(end)
        known = numbers_of((size, begin, end))
        if known is not None:
            places = range(known[0])[known[1] : known[2] : step]
            low, high = (min(places), max(places) + 1) if places else (0, 0)
            x = use.cut(x, axis, low, high, abs(step))
            x = use.turned(x, axis) if step < 0 and places else x
            continue
        first, last = slice_places(size, begin, end, step)
        if step < 0:
            x = use.turned(x, axis)
            first, last = (simplify(size - 1 - place) for place in (first, last))
        x = use.cut(x, axis, first, larger(first, last), abs(step))
    return x


def split(use: HloUse) -> HloResults:
    """Export split as slices."""
    axis = use.axis()
    return [use.cut(use.args[0], axis, a, b) for a, b in pairwise(accumulate(use.attrs["sections"], initial=0))]


def concat(use: HloUse) -> HloValue:
    """Export concat as concatenate."""
    return use.joined(use.args, use.axis())


def pad(use: HloUse) -> HloValue:
    """A negative width crops, before anything is added. A border that is mirrored or repeated is parts of x."""
    (x,) = use.args
    low, high = use.attrs["pad_width"][: use.rank], use.attrs["pad_width"][use.rank :]
    if use.attrs["mode"] == "constant":
        return use.padded(x, use.attrs["pad_value"], low, high)
    x = use.padded(x, 0, [min(w, 0) for w in low], [min(w, 0) for w in high])
    for axis, (before, after) in enumerate(zip(low, high, strict=True)):
        x = _bordered(use, x, axis, max(before, 0), max(after, 0))
    return x


def _bordered(use: HloUse, x: HloValue, axis: int, before: int, after: int) -> HloValue:
    size, edge = x.shape[axis], use.attrs["mode"] == "edge"
    parts = [x]
    if before:
        first = _edge(use, x, axis, 0, before) if edge else use.turned(use.cut(x, axis, 1, 1 + before), axis)
        parts.insert(0, first)
    if after:
        near = size - 1 - after
        last = _edge(use, x, axis, size - 1, after) if edge else use.turned(use.cut(x, axis, near, size - 1), axis)
        parts.append(last)
    return use.joined(parts, axis)


def _edge(use: HloUse, x: HloValue, axis: int, place: Dim, count: int) -> HloValue:
    shape = tuple(count if a == axis else d for a, d in enumerate(x.shape))
    return use.placed(use.cut(x, axis, place, place + 1), shape, range(x.rank))


def take(use: HloUse) -> HloValue:
    """Export take as gather along an axis. An index outside, where the operator traps, is moved to the border."""
    x, indices = use.args
    axis = use.axis()
    places = use.place(indices, [x.shape[axis]])
    others = [a for a in range(x.rank) if a != axis]
    offset = [a if a < axis else a + indices.rank - 1 for a in others]
    return gathered(use, x, places, offset, [axis], indices.rank)


def gather_nd(use: HloUse) -> HloValue:
    """Export gather_nd as gather at index vectors."""
    x, indices = use.args
    depth = use.number(indices.shape[-1], "how many places an index has")
    if not depth:
        return use.stretched(x, use.shape)
    places = use.place(indices, x.shape[:depth])
    first = indices.rank - 1
    return gathered(use, x, places, range(first, first + x.rank - depth), range(depth), first)


def gathered(
    use: HloUse, x: HloValue, places: HloValue, offset: Sequence[int], axes: Sequence[int], vector: int
) -> HloValue:
    """The slices of x at places in some axes, which go; their own axes are `offset` of the result. A slice is one long
    there even where nothing is taken, so of an axis that may be empty x is made longer by one."""
    longer = [int(a in axes and not (isinstance(d, int) and d > 0)) for a, d in enumerate(x.shape)]
    if any(longer):
        x = use.padded(x, 0, [0] * x.rank, longer)
    numbers = (
        f"#stablehlo.gather<offset_dims = {list(offset)}, collapsed_slice_dims = {list(axes)},"
        f" start_index_map = {list(axes)}, index_vector_dim = {vector}>"
    )
    sizes: list[Dim] = [1 if a in axes else d for a, d in enumerate(x.shape)]
    known = numbers_of(sizes)
    if known is None:
        return use.op(
            "dynamic_gather", x, places, use.sizes.vector(sizes), shape=use.shape,
            dimension_numbers=numbers, indices_are_sorted="false",
        )  # fmt: skip
    return use.op(
        "gather", x, places, shape=use.shape,
        dimension_numbers=numbers, slice_sizes=ints_text(known), indices_are_sorted="false",
    )  # fmt: skip


def scatter_nd(use: HloUse) -> HloValue:
    """Export scatter_nd as scatter, whose updates of one place may come in any order. An index outside, where the
    operator traps, does nothing."""
    x, indices, updates = use.args
    depth = use.number(indices.shape[-1], "how many places an index has")
    if not depth:
        raise use.unsupported("updates of the whole tensor, one after another")
    places = use.place(indices, x.shape[:depth])
    first = indices.rank - 1
    numbers = (
        f"#stablehlo.scatter<update_window_dims = {list(range(first, first + x.rank - depth))},"
        f" inserted_window_dims = {list(range(depth))}, scatter_dims_to_operand_dims = {list(range(depth))},"
        f" index_vector_dim = {first}>"
    )
    how = use.attrs["reduction"]
    region = use.region([x.dtype] * 2, lambda p: p[1:]) if how == "none" else use.combining(how, x.dtype)
    attrs = {"scatter_dimension_numbers": numbers, "indices_are_sorted": "false", "unique_indices": "false"}
    return use.writer.op("stablehlo.scatter", [x, places, updates], [(x.shape, x.dtype)], attrs, [region])[0]


# --- creation -----------------------------------------------------------------------------------------------------


def full(use: HloUse) -> HloValue:
    """Export full as a constant."""
    with np.errstate(over="ignore"):
        number = np.asarray(use.attrs["fill_value"]).astype(use.to.numpy)
    return use.full(number, use.to, use.shape)


def arange(use: HloUse) -> HloValue:
    """Export arange as iota over int64 and a conversion."""
    return use.cast(use.line(INT64, use.shape), dtype(use.attrs["dtype"]))


def shape_of(use: HloUse) -> HloValue:
    """A constant where all sizes are numbers."""
    return use.sizes.vector(use.args[0].shape)


TABLE: dict[str, HloExportRule] = {
    "arange": arange,
    "broadcast_to": lambda use: use.stretched(use.args[0], use.shape),
    "concat": concat,
    "device_copy": lambda use: use.args[0],
    "expand_dims": reshaped,
    "full": full,
    "gather_nd": gather_nd,
    "nn.pad": pad,
    "permute_dims": permute_dims,
    "reshape": reshaped,
    "scatter_nd": scatter_nd,
    "shape_of": shape_of,
    "split": split,
    "squeeze": reshaped,
    "strided_slice": strided_slice,
    "take": take,
}

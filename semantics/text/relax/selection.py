"""Relax operators: elements chosen by tensors of places, and places that are found (specs/semantics.md, "Text").

A place below 0 counts from the end, one outside traps: TVM reads there whatever is in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from assay.semantics import graph
from assay.semantics.composed.index_tuples import (
    counted,
    gathered,
    gathered_in_batches,
    reversed_in_part,
    side_by_side,
    tuples,
)
from assay.semantics.dtypes import INT64
from assay.semantics.graph import Expr
from assay.semantics.ops.common import broadcast_shapes
from assay.semantics.ops.sizes import product
from assay.semantics.scalar import Dim, Var as Symbol
from assay.semantics.text.relax.build import MISSING, Build, RelaxCall, Row, make_row
from assay.semantics.types import ShapeType

# --- gathers and scatters -----------------------------------------------------------------------------------------

REDUCTIONS = {"update": "none", "add": "add", "mul": "mul", "max": "max", "min": "min"}


def _gather_elements(b: Build, x: Expr, indices: Expr, axis: int) -> Expr:
    rank = b.tensor(x).ndim
    if b.tensor(indices).ndim != rank:
        raise b.wrong(f"data is {x.type}, indices are {indices.type}; one rank is wanted")
    return gathered(b, x, indices, b.axis(axis, rank))


def _gather_nd(b: Build, x: Expr, indices: Expr, batch_dims: int) -> Expr:
    b.tensor(x), b.tensor(indices)
    return gathered_in_batches(b, x, indices, batch_dims)


def _reduction(b: Build, name: str) -> str:
    if name not in REDUCTIONS:
        more = ", which hangs on the order of the updates," if name == "mean" else ""
        raise b.unsupported(f"reduction {name!r}{more}")
    return REDUCTIONS[name]


def _scatter_elements(b: Build, x: Expr, indices: Expr, updates: Expr, axis: int, reduction: str) -> Expr:
    rank = b.tensor(x).ndim
    if not b.tensor(indices).ndim == b.tensor(updates).ndim == rank:
        raise b.wrong(f"data is {x.type}, indices are {indices.type}, updates are {updates.type}; one rank is wanted")
    places = tuples(b, indices, b.axis(axis, rank), range(rank))
    return b.call("scatter_nd", x, places, updates, reduction=_reduction(b, reduction))


def _scatter_nd(b: Build, x: Expr, indices: Expr, updates: Expr, reduction: str) -> Expr:
    b.tensor(x), b.tensor(updates)
    return b.call("scatter_nd", x, b.cast(indices, INT64), updates, reduction=_reduction(b, reduction))


def _together(b: Build, indices: Any, rank: int) -> tuple[Expr, tuple[Dim, ...], int]:
    """Index tensors, broadcast to one shape, as tuples; that shape, and how many they are."""
    given = [indices] if isinstance(indices, Expr) and not isinstance(indices, graph.Tuple) else b.tensors(indices)
    if not 1 <= len(given) <= rank:
        raise b.wrong(f"{len(given)} index tensors; 1 to {rank} are wanted")
    if any(not b.tensor(i).dtype.is_integer for i in given):
        raise b.unsupported("an index tensor that holds no integers")
    shape = broadcast_shapes(f"R.{b.name}", [b.tensor(i).shape for i in given])
    wide = [b.call("broadcast_to", b.cast(i, INT64), shape=shape) for i in given]
    return side_by_side(b, wide), shape, len(given)


def _index_tensor(b: Build, x: Expr, indices: Any) -> Expr:
    return b.call("gather_nd", x, _together(b, indices, b.tensor(x).ndim)[0])


def _index_put(b: Build, x: Expr, indices: Any, values: Expr, accumulate: bool) -> Expr:
    of = b.tensor(x)
    places, shape, count = _together(b, indices, of.ndim)
    wanted = (*shape, *of.shape[count:])
    updates = b.call("broadcast_to", values, shape=wanted)
    return b.call("scatter_nd", x, places, updates, reduction="add" if accumulate else "none")


def _slice_scatter(b: Build, x: Expr, src: Expr, start: Any, end: Any, step: Any, axis: int) -> Expr:
    of, by = b.tensor(x), b.tensor(src)
    axis = b.axis(axis, of.ndim)
    first, last, stride, size = b.number(start), b.number(end), b.number(step), of.shape[axis]
    if not isinstance(size, int) or first < 0 or stride < 1:
        raise b.unsupported(f"start {first}, step {stride} and an axis of {size}")
    count = len(range(first, min(last, size), stride))
    if by.ndim != of.ndim or by.shape[axis] != count:
        raise b.wrong(f"src is {by}; {count} slices of {of} are wanted")
    shape = by.shape[: axis + 1]
    along = counted(b, shape, axis)
    along = b.call("add", b.call("multiply", along, b.like(along, stride)), b.like(along, first))
    return b.call("scatter_nd", x, tuples(b, along, axis, range(axis + 1)), src)


def _reverse_sequence(b: Build, x: Expr, lengths: Expr, seq_axis: int, batch_axis: int) -> Expr:
    rank = b.tensor(x).ndim
    time, batch = b.axis(seq_axis, rank), b.axis(batch_axis, rank)
    if time == batch or b.tensor(lengths).ndim != 1:
        raise b.wrong(f"axes {seq_axis} and {batch_axis}, lengths {lengths.type}; two axes and a vector are wanted")
    size = b.tensor(x).shape[time]
    if not isinstance(size, int):
        raise b.unsupported(f"an axis of unknown size, {size}")
    most = b.call("minimum", b.cast(lengths, INT64), b.constant(size, INT64))
    return reversed_in_part(b, x, most, batch, time)


# --- slices that the run decides ----------------------------------------------------------------------------------


def dynamic_slice(b: Build, x: Expr, begin: Expr, end: Expr, strides: Expr) -> Expr:
    """x[begin:end:strides] along all axes, of what three vectors hold; ends beyond the axis are cut, and those below 0
    count from the end, as Python's are."""
    rank = b.tensor(x).ndim
    vectors = [b.cast(v, INT64) for v in (begin, end, strides)]
    if any(b.tensor(v).shape != (rank,) for v in vectors):
        raise b.wrong(f"begin, end and strides are {begin.type}, {end.type}, {strides.type}; {rank} numbers are wanted")
    sizes, zero, one = b.call("shape_of", x), b.constant(0, INT64), b.constant(1, INT64)
    back = b.call("less", vectors[2], zero)
    low = b.call("where", back, b.constant(-1, INT64), zero)
    high = b.call("where", back, b.call("subtract", sizes, one), sizes)

    def inside(place: Expr) -> Expr:
        place = b.call("where", b.call("less", place, zero), b.call("add", place, sizes), place)
        return b.call("minimum", b.call("maximum", place, low), high)

    first, last = inside(vectors[0]), inside(vectors[1])
    # rounded up: how many steps there are
    distance = b.call("subtract", first, last)
    counts = b.call("negative", b.call("floor_divide", distance, vectors[2]))
    counts = b.call("maximum", counts, zero)

    def made(dims: tuple[Dim, ...]) -> Expr:
        y = x
        for axis, d in enumerate(dims):
            start, step = (b.call("take", v, b.constant(axis, INT64), axis=0) for v in (first, vectors[2]))
            places = b.call("multiply", b.call("arange", size=d), step)
            y = b.call("take", y, b.call("add", places, start), axis=axis)
        return y

    return b.measured(counts, rank, made)


def _tensor_to_shape(b: Build, x: Expr) -> Expr:
    of = b.tensor(x)
    if of.ndim != 1 or not isinstance(of.shape[0], int):
        raise b.wrong(f"{of} is given; a vector of known length is wanted")
    return graph.match_cast(b.cast(x, INT64), ShapeType(tuple(Symbol("d") for _ in range(of.shape[0]))), span=b.span)


# --- what is found ------------------------------------------------------------------------------------------------


def _cut(b: Build, x: Expr, size: Dim, axis: int) -> Expr:
    return b.call("strided_slice", x, axes=(axis,), begin=(0,), end=(size,), strides=(1,))


def _nonzero(b: Build, x: Expr) -> Expr:
    b.tensor(x)
    places, count = b.fields(b.call("nonzero", x), 2)
    return b.measured(count, 1, lambda dims: _cut(b, places, dims[0], 1))


def _unique(b: Build, x: Expr, *flags: Any) -> Expr:
    """Elements, or slices along an axis; then the places where each is first, the number of each in the order of the
    operand, how often each is there: as far as they are asked for."""
    in_order, *wanted = (bool(b.number(f)) for f in flags[:4])
    axis = None if flags[4] is None else b.axis(b.number(flags[4]), b.tensor(x).ndim)
    shape = b.tensor(x).shape
    if axis is None:
        line = b.shaped(x, (product(shape),))
        rows, axis = b.call("reshape", line, shape=(product(shape), 1)), 0
    else:
        order = (axis, *(a for a in range(len(shape)) if a != axis))
        rest = product([shape[a] for a in order[1:]])
        line, rows = x, b.call("reshape", b.call("permute_dims", x, axes=order), shape=(shape[axis], rest))
    first, inverse, counts, count = b.fields(b.call("unique", rows, sorted=in_order), 4)

    def made(dims: tuple[Dim, ...]) -> Expr:
        there = _cut(b, first, dims[0], 0)
        values = b.call("take", line, there, axis=axis)
        more = [there, inverse, _cut(b, counts, dims[0], 0)]
        parts = [values, *(part for part, want in zip(more, wanted, strict=True) if want)]
        return parts[0] if len(parts) == 1 else b.tuple_of(*parts)

    return b.measured(count, 1, made)


# --- counted numbers ----------------------------------------------------------------------------------------------


def _eye_like(b: Build, x: Expr, k: Any, dtype: Any) -> Expr:
    of = b.tensor(x)
    if of.ndim != 2:
        raise b.wrong(f"{of} is given; a matrix is wanted")
    row, column = counted(b, of.shape, 0), counted(b, of.shape, 1)
    return b.cast(b.call("equal", b.call("add", row, b.like(row, b.number(k))), column), dtype or of.dtype)


def _meshgrid(b: Build, tensors: Any, indexing: str | None) -> Expr:
    parts = b.tensors(tensors)
    if indexing not in (None, "ij", "xy") or any(b.tensor(p).ndim > 1 for p in parts):
        raise b.unsupported(f"indexing {indexing!r} of {', '.join(str(p.type) for p in parts)}")
    lines = [b.shaped(p, (product(b.tensor(p).shape),)) for p in parts]
    order = list(range(len(lines)))
    if indexing == "xy":
        order[:2] = reversed(order[:2])
    shape = tuple(b.tensor(lines[k]).shape[0] for k in order)
    return b.tuple_of(*(_along(b, line, order.index(k), shape) for k, line in enumerate(lines)))


def _along(b: Build, line: Expr, axis: int, shape: Sequence[Dim]) -> Expr:
    thin = b.shaped(line, tuple(d if a == axis else 1 for a, d in enumerate(shape)))
    return b.call("broadcast_to", thin, shape=tuple(shape))


def _size_of(b: Build, x: Expr) -> Expr:
    return b.call("prod", b.call("shape_of", x), axis=None, keepdims=False)


_FLAGS = {"sorted": True, "return_index": False, "return_inverse": False, "return_counts": False, "axis": None}

ROWS: dict[str, Row] = {
    "gather_elements": make_row("data indices", _gather_elements, axis=0),
    "gather_nd": make_row("data indices", _gather_nd, batch_dims=0),
    "scatter_elements": make_row("data indices updates", _scatter_elements, axis=0, reduction="update"),
    "scatter_nd": make_row("data indices updates", _scatter_nd, reduction="update"),
    "index_tensor": make_row("data indices", _index_tensor),
    "index_put": make_row("data indices values", _index_put, accumulate=False),
    "slice_scatter": make_row("input_tensor src start end step", _slice_scatter, axis=0),
    "reverse_sequence": make_row("data seq_lengths", _reverse_sequence, seq_axis=1, batch_axis=0),
    "dynamic_strided_slice": make_row("x begin end strides", dynamic_slice),
    "tensor_to_shape": make_row("expr", _tensor_to_shape),
    "nonzero": make_row("x", _nonzero),
    "unique": make_row({"x": MISSING, **_FLAGS}, _unique),
    "eye_like": make_row({"x": MISSING, "k": 0}, _eye_like, dtype=None),
    "meshgrid": make_row("tensors", _meshgrid, indexing="ij"),
    "size": make_row("expr", _size_of),
}


def _write_indexed(name: str) -> Callable[[graph.Call], RelaxCall | None]:
    def write(node: graph.Call) -> RelaxCall | None:
        if Build(name, None).tensor(node.args[1]).dtype is not INT64:
            return None  # Relax's would be read as a cast
        back = {ours: theirs for theirs, ours in REDUCTIONS.items()}
        attrs = {"batch_dims": 0} if name == "gather_nd" else {"reduction": back[node.attrs["reduction"]]}
        return RelaxCall(name, node.args, attrs)

    return write


WRITERS: dict[str, Callable[[graph.Call], RelaxCall | None]] = {
    "gather_nd": _write_indexed("gather_nd"),
    "scatter_nd": _write_indexed("scatter_nd"),
}

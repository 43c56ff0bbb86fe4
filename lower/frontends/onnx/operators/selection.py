"""Gathers, scatters, and what finds or chooses places, of ONNX (specs/lower.md, "Import").

The index tuples are those of `assay.semantics.composed.index_tuples`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from assay.lower.frontends.onnx.node import Node, Result, Rule, tensor
from assay.semantics.composed.index_tuples import counted, gathered, gathered_in_batches, reversed_in_part, tuples
from assay.semantics.dtypes import FLOAT64, INT64, DType
from assay.semantics.graph import Expr
from assay.semantics.ops.sizes import ceil_div, larger, product
from assay.semantics.scalar import Dim, simplify
from assay.semantics.text.relax.build import python_number


def gather_elements(node: Node) -> Expr:
    """Translate GatherElements; data and indices must have one rank."""
    x, indices = tensor(node[0]), tensor(node[1])
    if indices.ndim != x.ndim:
        raise node.wrong(f"data is {x}, indices are {indices}; one rank is wanted")
    return gathered(node, node[0], node[1], node.axis(x.ndim))


def gather_nd(node: Node) -> Expr:
    """Translate GatherND."""
    return gathered_in_batches(node, node[0], node[1], node.attrs.get("batch_dims") or 0)


def scatter_elements(node: Node) -> Expr:
    """Translate ScatterElements as a scatter of whole index tuples; the operands must have one rank."""
    x, indices, updates = (tensor(node[i]) for i in range(3))
    if not x.ndim == indices.ndim == updates.ndim:
        raise node.wrong(f"data is {x}, indices are {indices}, updates are {updates}; one rank is wanted")
    axis = node.axis(x.ndim)
    places = tuples(node, node[1], axis, range(x.ndim))
    return node.call("scatter_nd", node[0], places, node[2], reduction=node.attrs.get("reduction") or "none")


def scatter_nd(node: Node) -> Expr:
    """Translate ScatterND, with its reduction in the versions that have one."""
    reduction = node.attrs.get("reduction") or "none"
    return node.call("scatter_nd", node[0], node.cast(node[1], INT64), node[2], reduction=reduction)


def tensor_scatter(node: Node) -> Expr:
    """A run of updates along an axis, for each batch from its own place on; in mode circular it goes on at 0."""
    past, update = tensor(node[0]), tensor(node[1])
    axis = node.axis(past.ndim)
    if axis == 0:
        raise node.wrong("axis is 0, which is that of the batches")
    places = counted(node, update.shape, axis)
    if node.has(2):
        start = node.shaped(node[2], (update.shape[0], *(1,) * (update.ndim - 1)))
        places = node.call("add", places, start)
    if node.choice("mode", "linear", "circular") == "circular":
        size = node.call("arange", size=1, dtype="int64")  # of one element, for a size may be a symbol
        size = node.call("add", size, _size(node, node[0], axis))
        places = node.call("subtract", places, node.call("multiply", node.call("floor_divide", places, size), size))
    return node.call("scatter_nd", node[0], tuples(node, places, axis, range(past.ndim)), node[1])


def _size(node: Node, x: Expr, axis: int) -> Expr:
    size = tensor(x).shape[axis]
    if isinstance(size, int):
        return node.constant(size, INT64)
    return node.pick(node.call("shape_of", x), axis, 0)


def reverse_sequence(node: Node) -> Expr:
    """Along the time axis, the first so many elements of each batch the other way round."""
    x = tensor(node[0])
    batch, time = (node.axis(x.ndim, node.attrs[k]) for k in ("batch_axis", "time_axis"))
    if {batch, time} != {0, 1}:
        raise node.wrong(f"batch_axis is {batch}, time_axis is {time}; one is 0 and the other 1")
    return reversed_in_part(node, node[0], node.cast(node[1], INT64), batch, time)


# --- counted numbers ----------------------------------------------------------------------------------------------


def range_(node: Node) -> Expr:
    """start + i * delta. The count is computed by the run where an operand is only known then, and measured.

    Of floats delta is added again and again, as in ONNX's body; the bounds hold the product too.
    """
    of = tensor(node[0]).dtype
    known = [node.builder.value(node[i]) for i in range(3)]
    if all(k is not None for k in known):
        size: Dim = _count(node, *(python_number(k.reshape(-1)[0]) for k in known if k is not None))
    elif (counted := _counted(node)) is not None:
        size = counted
    else:
        size = node.cut_size(_counted_by_the_run(node, of))
    if of.is_float:
        every = node.call("broadcast_to", node.shaped(node[2], (1,)), shape=(size,))
        scaled = node.call("cumsum", every, axis=0, exclusive=True)
    else:
        steps = node.call("arange", size=size, dtype="int64")
        scaled = node.call("multiply", node.cast(steps, of), node.shaped(node[2], ()))
    return node.call("add", node.shaped(node[0], ()), scaled)


def _count(node: Node, start: float, limit: float, delta: float) -> int:
    if not delta:
        raise node.wrong("delta is 0; Range wants another step")
    count = np.ceil((limit - start) / delta)
    if not np.isfinite(count):
        raise node.wrong(f"from {start} to {limit} by {delta} there are {count} elements; a number of them is wanted")
    node.require_room(max(0, int(count)))
    return max(0, int(count))


def _counted(node: Node) -> Dim | None:
    """How many there are, where sizes say it and the step is a number; None where they do not."""
    found = [node.builder.contents(node[i]) for i in range(3)]
    ends = [f.reshape(-1)[0] for f in found if f is not None]
    if len(ends) < 3 or not isinstance(ends[2], int) or ends[2] == 0:
        return None
    start, limit, delta = ends
    distance = simplify(limit - start if delta > 0 else start - limit)
    return larger(ceil_div(distance, abs(delta)), 0)


def _counted_by_the_run(node: Node, of: DType) -> Expr:
    """max(0, ceil((limit - start) / delta)) as a vector of one."""
    wide = INT64 if of.is_integer else FLOAT64
    start, limit, delta = (node.cast(node.shaped(node[i], (1,)), wide) for i in range(3))
    distance = node.call("subtract", limit, start)
    if of.is_integer:  # rounded up, whatever the signs
        down = node.call("floor_divide", node.call("negative", distance), delta)
        count = node.call("negative", down)
    else:
        # a size cannot be open: where there is none, the run traps
        count = node.call("astype", node.call("ceil", node.call("divide", distance, delta)), dtype="int64")
    return node.call("maximum", count, 0)


def eye_like(node: Node) -> Expr:
    """1 on a diagonal, 0 elsewhere."""
    x = tensor(node[0])
    if x.ndim != 2:
        raise node.wrong(f"the operand is {x}; a matrix is wanted")
    of = node.dtype("dtype", x.dtype)
    row, column = counted(node, x.shape, 0), counted(node, x.shape, 1)
    shifted = node.call("add", row, node.attrs["k"])
    return node.cast(node.call("equal", shifted, column), of)


def one_hot(node: Node) -> Expr:
    """A new axis of `depth` places, of which the index's has the second value and the others the first. An index
    outside of [-depth, depth) has none. Float indices and depths are rounded to zero."""
    indices = tensor(node[0])
    depth = node.known(1)
    if depth.size != 1 or int(depth.reshape(-1)[0]) < 0:
        raise node.wrong(f"depth is {depth}; one size is wanted")
    size = int(depth.reshape(-1)[0])
    axis = node.axis(indices.ndim + 1)
    places = node.cast(node[0], INT64)
    places = node.call("where", node.call("less", places, 0), node.call("add", places, size), places)
    places = node.call("expand_dims", places, axis=(axis,))
    line = node.shaped(node.call("arange", size=size), tuple(size if a == axis else 1 for a in range(indices.ndim + 1)))
    off, on = (node.pick(node[2], k, 0) for k in range(2))
    return node.call("where", node.call("equal", places, line), on, off)


# --- places that are found ----------------------------------------------------------------------------------------


def nonzero(node: Node) -> Expr:
    """Translate NonZero: the indices of elements that are not 0, cut to as many as there are."""
    places, count = node.fields(node.call("nonzero", node[0]), 2)
    return node.cut(places, count, 1)


def compress(node: Node) -> Expr:
    """The slices where the condition holds; it may be shorter than the axis. Without an axis, elements."""
    x, condition = node[0], tensor(node[1])
    if condition.ndim != 1:
        raise node.wrong(f"condition is {condition}; a vector is wanted")
    axis = node.attrs.get("axis")
    if axis is None:
        x, axis = node.shaped(x, (product(tensor(x).shape),)), 0
    places, count = node.fields(node.call("nonzero", node[1]), 2)
    chosen = node.cut(node.shaped(places, condition.shape), count, 0)
    return node.call("take", x, chosen, axis=node.axis(tensor(x).ndim, axis))


def unique(node: Node) -> Sequence[Result]:
    """Slices along the axis as rows; without an axis, elements."""
    x = tensor(node[0])
    axis = node.attrs.get("axis")
    if axis is None:
        line = node.shaped(node[0], (product(x.shape),))
        rows, axis = node.shaped(line, (product(x.shape), 1)), 0
    else:
        line, axis = node[0], node.axis(x.ndim, axis)
        order = (axis, *(a for a in range(x.ndim) if a != axis))
        rest = [x.shape[a] for a in order[1:]]
        rows = node.shaped(node.call("permute_dims", node[0], axes=order), (x.shape[axis], product(rest)))
    found = node.call("unique", rows, sorted=bool(node.attrs["sorted"]))
    first, inverse, counts, count = node.fields(found, 4)
    size = node.cut_size(count)
    first, counts = (node.cut_to(v, size, 0) for v in (first, counts))
    return node.call("take", line, first, axis=axis), first, inverse, counts


TABLE: dict[str, Rule] = {
    "Compress": compress,
    "EyeLike": eye_like,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "NonZero": nonzero,
    "OneHot": one_hot,
    "Range": range_,
    "ReverseSequence": reverse_sequence,
    "Scatter": scatter_elements,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "TensorScatter": tensor_scatter,
    "Unique": unique,
}

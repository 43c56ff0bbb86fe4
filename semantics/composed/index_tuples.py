"""Gathers and scatters by index tuples (specs/semantics.md, "Selection").

Tuples are made of counted numbers, so that two operators, gather_nd and scatter_nd, serve all others of their kind.
"""

from __future__ import annotations

from collections.abc import Sequence

from assay.semantics.composed.maker import Maker, tensor_of
from assay.semantics.dtypes import INT64
from assay.semantics.graph import Expr
from assay.semantics.scalar import Dim


def counted(make: Maker, shape: Sequence[Dim], axis: int) -> Expr:
    """For each element of a tensor of that shape its place along an axis, as int64."""
    line = make.call("arange", size=shape[axis], dtype="int64")
    thin = [d if a == axis else 1 for a, d in enumerate(shape)]
    return make.call("broadcast_to", make.shaped(line, thin), shape=tuple(shape))


def side_by_side(make: Maker, parts: Sequence[Expr]) -> Expr:
    """Tensors of one shape as the elements of a last axis."""
    rank = tensor_of(parts[0]).ndim
    wide = [make.call("expand_dims", p, axis=(rank,)) for p in parts]
    return make.call("concat", *wide, axis=rank) if len(wide) > 1 else wide[0]


def tuples(make: Maker, indices: Expr, axis: int, axes: Sequence[int]) -> Expr:
    """Index tuples into a tensor of the same rank: `indices` along `axis`, the element's own place along the others of
    `axes`."""
    shape = tensor_of(indices).shape
    given = make.cast(indices, INT64)
    return side_by_side(make, [given if a == axis else counted(make, shape, a) for a in axes])


def gathered(make: Maker, x: Expr, indices: Expr, axis: int) -> Expr:
    """The elements of x at `indices` along an axis and at the same place along the others."""
    return make.call("gather_nd", x, tuples(make, indices, axis, range(tensor_of(x).ndim)))


def gathered_in_batches(make: Maker, x: Expr, indices: Expr, batch: int) -> Expr:
    """The slices of x at index tuples; the first `batch` axes of both are one, and come first in the tuples."""
    of, by = tensor_of(x), tensor_of(indices)
    if not 0 <= batch < min(of.ndim, by.ndim):
        raise make.wrong(f"batch_dims is {batch}, data is {of}, indices are {by}; both need more axes than that")
    places = make.cast(indices, INT64)
    if batch:
        shape = (*by.shape[:-1], 1)
        places = make.call("concat", *(counted(make, shape, a) for a in range(batch)), places, axis=by.ndim - 1)
    return make.call("gather_nd", x, places)


def reversed_in_part(make: Maker, x: Expr, lengths: Expr, batch: int, time: int) -> Expr:
    """Along the time axis, the first so many elements of each batch the other way round; `lengths` are of int64."""
    count = max(batch, time) + 1
    shape = tensor_of(x).shape[:count]
    spread = make.shaped(lengths, tuple(d if a == batch else 1 for a, d in enumerate(shape)))
    place = counted(make, shape, time)
    last = make.call("subtract", spread, make.constant(1, INT64))
    mirrored = make.call("subtract", last, place)
    places = make.call("where", make.call("less", place, spread), mirrored, place)
    return make.call("gather_nd", x, tuples(make, places, time, range(count)))

"""Relay operators: order, gathers and scatters, and what the run decides the sizes of (specs/lower.md, "Relay").

Relay's index tuples lie along the first axis, Relax's along the last.
"""

from __future__ import annotations

from typing import Any

from assay.lower.frontends.relay.build import MISSING, Relay, Row, make_row, relax
from assay.semantics.dtypes import INT64
from assay.semantics.graph import Expr
from assay.semantics.scalar import Dim

# --- order --------------------------------------------------------------------------------------------------------


def _sort(b: Relay, x: Expr, axis: int, is_ascend: Any) -> Expr:
    return b.relax("sort", [x], axis=axis, descending=not is_ascend)


def _argsort(b: Relay, x: Expr, axis: int, is_ascend: Any, dtype: Any) -> Expr:
    return b.relax("argsort", [x], axis=axis, descending=not is_ascend, dtype=dtype or "int32")


def _topk(b: Relay, x: Expr, count: Any, *, k: Any, axis: int, ret_type: str, is_ascend: Any, dtype: Any) -> Expr:
    many = k if count is None else b.number(count)
    return b.relax("topk", [x], k=many, axis=axis, ret_type=ret_type, largest=not is_ascend, dtype=dtype or "int32")


# --- operands of known sizes --------------------------------------------------------------------------------------


def _all_known(b: Relay, *xs: Expr) -> None:
    for x in xs:
        for size in b.tensor(x).shape:
            b.known(size, "an axis")


def _of_known_sizes(names: str, op: str, **attrs: Any) -> Row:
    """An operator of Relax with attributes of the same names."""

    def make(b: Relay, *xs: Expr, **given: Any) -> Expr:
        _all_known(b, *xs)
        return b.relax(op, xs, **given)

    return make_row(names, make, **attrs)


def _einsum(b: Relay, data: Any, equation: str) -> Expr:
    _all_known(b, *b.tensors(data))
    return b.relax("einsum", [data], subscripts=equation)


# --- gathers and scatters -----------------------------------------------------------------------------------------


def _last(b: Relay, indices: Expr) -> Expr:
    """Index tuples along the last axis."""
    rank = b.tensor(indices).ndim
    return b.call("permute_dims", indices, axes=(*range(1, rank), 0))


def _gather_nd(b: Relay, x: Expr, indices: Expr, batch_dims: int, index_rank: Any) -> Expr:
    _all_known(b, x, indices)
    return b.relax("gather_nd", [x, _last(b, indices)], batch_dims=batch_dims)


def _scatter_nd(b: Relay, x: Expr, indices: Expr, updates: Expr, mode: str) -> Expr:
    _all_known(b, x, indices, updates)
    return b.relax("scatter_nd", [x, _last(b, indices), updates], reduction=mode)


def _argwhere(b: Relay, x: Expr) -> Expr:
    """The places of what is not 0, a row for each."""
    places, count = b.fields(b.call("nonzero", x), 2)
    rank = b.tensor(x).ndim
    rows = b.cast(b.call("permute_dims", places, axes=(1, 0)), "int32")

    def cut(dims: tuple[Dim, ...]) -> Expr:
        return b.call("strided_slice", rows, axes=(0, 1), begin=(0, 0), end=(dims[0], rank), strides=(1, 1))

    return b.measured(count, 1, cut)


# --- operators whose operands are sizes ---------------------------------------------------------------------------


def _dyn_strided_slice(b: Relay, x: Expr, begin: Expr, end: Expr, strides: Expr, slice_mode: str) -> Expr:
    if slice_mode != "end":
        raise b.unsupported(f"slice_mode {slice_mode!r}; end is handled,")
    _all_known(b, begin, end, strides)
    return b.relax("dynamic_strided_slice", [x, begin, end, strides])


def _dyn_tile(b: Relay, x: Expr, counts: Expr, *, reps: Any) -> Expr:
    return b.relax("tile", [x], repeats=tuple(b.known(d, "a count") for d in b.sizes_of(counts)))


def _dyn_one_hot(
    b: Relay, indices: Expr, on: Expr, off: Expr, places: Any, *, axis: int, dtype: Any, depth: Any
) -> Expr:
    wide = b.cast(indices, INT64.name)
    count = b.number(places)
    return b.relax("one_hot", [wide, b.cast(on, dtype), b.cast(off, dtype)], depth=count, axis=axis)


def _dyn_expand_dims(b: Relay, x: Expr, axis: Any, *, num_newaxis: int) -> Expr:
    first = b.axis(b.number(axis), b.tensor(x).ndim + 1)
    return b.call("expand_dims", x, axis=tuple(range(first, first + num_newaxis)))


def _dyn_squeeze(b: Relay, x: Expr, axis: Expr) -> Expr:
    rank = b.tensor(x).ndim
    axes = tuple(b.axis(b.known(d, "an axis"), rank) for d in b.sizes_of(axis))
    for a in axes:
        x = b.agree(x, a, 1)
    return b.call("squeeze", x, axis=axes)


_TOPK: dict[str, Any] = {"axis": -1, "ret_type": "both", "is_ascend": False, "dtype": "int32"}

ROWS: dict[str, Row] = {
    "cumsum": relax("data", "cumsum", axis=None, dtype="", exclusive=False),
    "cumprod": relax("data", "cumprod", axis=None, dtype="", exclusive=False),
    "sort": make_row("data", _sort, axis=-1, is_ascend=True),
    "argsort": make_row("data", _argsort, axis=-1, is_ascend=True, dtype="int32"),
    "topk": make_row("data count?", _topk, k=1, **_TOPK),
    "dyn.topk": make_row("data count", _topk, k=1, **_TOPK),
    "gather": _of_known_sizes("data indices", "gather_elements", axis=MISSING),
    "gather_nd": make_row("data indices", _gather_nd, batch_dims=0, index_rank=None),
    "scatter_elements": _of_known_sizes("data indices updates", "scatter_elements", axis=0, reduction="update"),
    "scatter_nd": make_row("data indices updates", _scatter_nd, mode="update"),
    "argwhere": make_row("condition", _argwhere),
    "reverse_sequence": _of_known_sizes("data seq_lengths", "reverse_sequence", seq_axis=1, batch_axis=0),
    "einsum": make_row("data", _einsum, equation=MISSING),
    "dyn.strided_slice": make_row("data begin end strides", _dyn_strided_slice, slice_mode="end"),
    "dyn.tile": make_row("data counts", _dyn_tile, reps=None),
    "dyn.one_hot": make_row("indices on_value off_value places", _dyn_one_hot, axis=-1, dtype="", depth=None),
    "dyn.expand_dims": make_row("data axis", _dyn_expand_dims, num_newaxis=1),
    "dyn.squeeze": make_row("data axis", _dyn_squeeze),
}  # fmt: skip

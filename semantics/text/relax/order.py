"""Relax operators: order and running totals along an axis (specs/semantics.md, "Text").

Of equal elements the first comes first; NaN is above all numbers. TVM sorts stably, and says nothing of NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from assay.semantics.composed.searching import searched
from assay.semantics.dtypes import INT64
from assay.semantics.graph import Call, Expr
from assay.semantics.operator import Operator
from assay.semantics.ops.sizes import product
from assay.semantics.text.relax.build import Build, RelaxCall, Row, make_row


def _flat(b: Build, x: Expr) -> Expr:
    return b.shaped(x, (product(b.tensor(x).shape),))


def _running(op: str) -> Callable[..., Expr]:
    def make(b: Build, x: Expr, axis: int | None, dtype: Any, exclusive: Any) -> Expr:
        x = b.cast(x, dtype)
        if axis is None:
            x, axis = _flat(b, x), 0
        return b.call(op, x, axis=axis, exclusive=bool(exclusive))

    return make


def _ordered(b: Build, x: Expr, axis: int, largest: bool, k: Any = None) -> list[Expr]:
    """The first k elements along an axis in order, all by default, and their places."""
    axis = b.axis(axis, b.tensor(x).ndim)
    many = b.tensor(x).shape[axis] if k is None else k
    return b.fields(b.call("topk", x, k=many, axis=axis, largest=largest), 2)


def _sort(b: Build, x: Expr, axis: int, descending: Any) -> Expr:
    return _ordered(b, x, axis, bool(descending))[0]


def _argsort(b: Build, x: Expr, axis: int, descending: Any, dtype: Any) -> Expr:
    return b.cast(_ordered(b, x, axis, bool(descending))[1], dtype)


def _topk(b: Build, x: Expr, k: int, axis: int, ret_type: str, largest: Any, dtype: Any) -> Expr:
    size = b.tensor(x).shape[b.axis(axis, b.tensor(x).ndim)]
    if k < 1 or (isinstance(size, int) and k > size):
        k = size  # type: ignore[assignment]  # TVM: all of them, in order
    whole = b.call("topk", x, k=k, axis=axis, largest=bool(largest))
    if ret_type == "both" and str(dtype) == "int64":
        return whole
    values, places = b.fields(whole, 2)
    if ret_type == "both":
        return b.tuple_of(values, b.cast(places, dtype))
    if ret_type not in ("values", "indices"):
        raise b.wrong(f"ret_type is {ret_type!r}; both, values or indices is wanted")
    return values if ret_type == "values" else b.cast(places, dtype)


def _median(b: Build, x: Expr, axis: Any, keepdims: Any) -> Expr:
    """The lower of the two in the middle, and its place where an axis is given."""
    axes, rank = b.axes(axis), b.tensor(x).ndim
    if axes and len(axes) > 1:
        raise b.unsupported("several axes")
    given = x if axes else _flat(b, x)
    along = b.axis(axes[0], rank) if axes else 0
    size = b.tensor(given).shape[along]
    if not isinstance(size, int) or not size:
        raise b.unsupported(f"an axis of {size}")
    middle = (size - 1) // 2
    parts: list[Expr] = [
        b.call("take", part, b.constant(middle, INT64), axis=along)
        for part in _ordered(b, given, along, False, middle + 1)
    ]
    if keepdims:
        shape = tuple(1 if not axes or a == along else d for a, d in enumerate(b.tensor(x).shape))
        parts = [b.shaped(part, shape) for part in parts]
    return b.tuple_of(*parts) if axes else parts[0]


def _bucketize(b: Build, x: Expr, boundaries: Expr, out_int32: Any, right: Any) -> Expr:
    """How many of the boundaries, which ascend, are below an element, or at most it. TVM leaves undefined what others
    give; here they are counted too, for an assertion would be no pure function."""
    edges = b.tensor(boundaries)
    if edges.ndim != 1:
        raise b.wrong(f"boundaries are {edges}; a vector is wanted")
    wide = b.cast(b.call("expand_dims", x, axis=(b.tensor(x).ndim,)), edges.dtype)
    return b.cast(searched(b, boundaries, wide, bool(right)), "int32" if out_int32 else "int64")


ROWS: dict[str, Row] = {
    "cumsum": make_row("data", _running("cumsum"), axis=None, dtype=None, exclusive=False),
    "cumprod": make_row("data", _running("cumprod"), axis=None, dtype=None, exclusive=False),
    "sort": make_row("x", _sort, axis=-1, descending=False),
    "argsort": make_row("data", _argsort, axis=-1, descending=False, dtype="int32"),
    "topk": make_row("data", _topk, k=1, axis=-1, ret_type="both", largest=True, dtype="int32"),
    "median": make_row("x", _median, axis=None, keepdims=False),
    "bucketize": make_row("input_tensor boundaries", _bucketize, out_int32=False, right=False),
}


def _write_running(node: Call) -> RelaxCall | None:
    assert isinstance(node.op, Operator)
    a = node.attrs
    if a["reverse"]:
        return None
    return RelaxCall(node.op.name, node.args, {"axis": a["axis"], "dtype": None, "exclusive": a["exclusive"]})


def _write_topk(node: Call) -> RelaxCall | None:
    a = node.attrs
    if not a["sorted"] or not a["stable"] or not isinstance(a["k"], int) or a["k"] < 1:
        return None
    attrs = {"k": a["k"], "axis": a["axis"], "ret_type": "both", "largest": a["largest"], "dtype": "int64"}
    return RelaxCall("topk", node.args, attrs)


WRITERS: dict[str, Callable[[Call], RelaxCall | None]] = {
    "cumsum": _write_running,
    "cumprod": _write_running,
    "topk": _write_topk,
}

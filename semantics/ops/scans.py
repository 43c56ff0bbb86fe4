"""Running totals and order along an axis (specs/semantics.md, "Stepwise").

In the tensor IR a running total takes one element after another, each step rounded. The value here adds the elements
before each place as a reduction does, so any parallel scan is within its bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from assay.semantics.bounding.core import plain_if_exact
from assay.semantics.bounds import Bounded, running_sums
from assay.semantics.dtypes import INT64, dtype
from assay.semantics.errors import Trap
from assay.semantics.operator import Attr, Attrs, Example, Operator
from assay.semantics.ops.common import normalize_axis, require_kind
from assay.semantics.ops.reduction import accumulator
from assay.semantics.ops.sizes import is_dim, is_int
from assay.semantics.scalar import NUMERIC
from assay.semantics.types import TensorType, TupleType

# --- running totals -----------------------------------------------------------------------------------------------


def _prefixes(x: Bounded, axis: int, exclusive: bool, whole: Callable[..., Any]) -> Any:
    """The reduction of the elements before each place, each a bound of its own."""
    if whole is np.sum and x.of.is_float:
        made = running_sums(x, axis, exclusive)
        if made is not None:
            return made
    places = range(x.shape[axis])
    parts = [whole(x[(slice(None),) * axis + (slice(0, k if exclusive else k + 1),)], axis=axis) for k in places]
    return np.stack(parts, axis) if parts else x


def _scan(accumulate: Any, whole: Callable[..., Any], attrs: Attrs, x: Any) -> Any:
    axis = attrs["axis"] % x.ndim
    given = np.flip(x, axis) if attrs["reverse"] else x
    if isinstance(x, Bounded):
        result = _prefixes(given, axis, attrs["exclusive"], whole)
    else:
        result = accumulate.accumulate(given.astype(accumulator(x.dtype)), axis)
        if attrs["exclusive"] and x.shape[axis]:
            start = np.full_like(np.take(result, [0], axis), accumulate.identity)
            result = np.concatenate([start, np.delete(result, -1, axis)], axis)
            if accumulate is np.add and dtype(x.dtype).is_float:
                result = result + result.dtype.type(0)  # it begins with 0, as the first place has it: 0 and -0 are 0
        result = result.astype(x.dtype)
    return np.flip(result, axis) if attrs["reverse"] else result


def _running(name: str, doc: str, accumulate: Any, whole: Callable[..., Any], bound: str, onnx: str) -> Operator:
    def rule(attrs: Attrs, types: tuple[TensorType, ...]) -> TensorType:
        (x,) = types
        require_kind(name, x.dtype, NUMERIC)
        op.require(is_int(attrs["axis"]), "C1", f"axis is {attrs['axis']!r}, not an integer")
        for flag in ("exclusive", "reverse"):
            op.require(isinstance(attrs[flag], bool), "C2", f"{flag} is {attrs[flag]!r}, not True or False")
        normalize_axis(name, attrs["axis"], x.ndim)
        return x

    op = Operator(
        name, doc, ("x",), "stepwise", rule,
        lambda attrs, x: _scan(accumulate, whole, attrs, x),
        bound,
        (
            Example((((2, 3, 5), "float32"),), {"axis": 1}),
            Example((((2, 3), "float32"),), {"axis": -1, "exclusive": True}),
            Example((((4,), "float32"),), {"axis": 0, "reverse": True}),
            Example((((4, 3), "int32"),), {"axis": 0, "reverse": True, "exclusive": True}),
        ),
        {
            "axis": Attr("the axis, counted from the end where negative"),
            "exclusive": Attr("whether the element at a place itself is left out there", False),
            "reverse": Attr("whether what is before a place stands after it on the axis", False),
        },
        {"C1": "axis is an integer", "C2": "exclusive and reverse are True or False"},
        source=f"ONNX {onnx}, docs/Operators.md; TVM relax.op.{name}",
    )  # fmt: skip
    return op


# --- order --------------------------------------------------------------------------------------------------------


def _order(x: Any, axis: int, largest: bool) -> Any:
    """The places of the elements in the order asked for; of equal ones the first comes first, NaN is the largest."""
    wide = x.astype(np.float64) if dtype(x.dtype).is_float else x
    if not largest:
        return np.argsort(wide, axis=axis, kind="stable")
    backwards = np.flip(np.argsort(np.flip(wide, axis), axis=axis, kind="stable"), axis)
    return x.shape[axis] - 1 - backwards


def _topk(attrs: Attrs, x: Any) -> Any:
    axis, k, largest = attrs["axis"] % x.ndim, attrs["k"], attrs["largest"]
    if k > x.shape[axis]:
        message = f"topk: k is {k}, but axis {axis} has {x.shape[axis]} elements"
        raise Trap("shape", message, label="topk.T1")
    if not isinstance(x, Bounded):
        places = _first(_order(x, axis, largest), axis, k)
        return np.take_along_axis(x, places, axis), places.astype(np.int64)
    if x.is_decided:
        values, places = _topk(attrs, x.raw.astype(x.dtype))
        return Bounded.exact(values), places
    # the least that the k-th largest can be is the k-th largest of the least values
    low, high = (_topk(attrs, e)[0] for e in x.interval())
    loose = np.isinf(x.radius).any(axis=axis, keepdims=True) | ~np.isfinite(low + high)
    with np.errstate(all="ignore"):
        middle = np.where(loose, 0.0, low / 2 + high / 2)
        half = np.where(loose, np.inf, (high / 2 - low / 2) * (1 + 2.0**-50) + 2.0**-50 * np.abs(middle))
    return Bounded(middle, half, x.of), _open_places(x, axis, k, largest)


def _open_places(x: Bounded, axis: int, k: int, largest: bool) -> Any:
    """The places of the first k of intervals in order: one where its interval lies between those of all before it and
    all behind it, else any."""
    order = _order(x.value, axis, largest)
    low, high = (np.take_along_axis(e, order, axis) for e in x.interval())
    if not largest:
        low, high = -high, -low
    beyond = np.full_like(_first(low, axis, 1), np.inf)
    before = np.concatenate([beyond, np.minimum.accumulate(low, axis)], axis)
    behind = np.concatenate([np.flip(np.maximum.accumulate(np.flip(high, axis), axis), axis), -beyond], axis)
    apart = (high < _first(before, axis, x.shape[axis])) & (low > np.delete(behind, 0, axis))
    known, last = _first(apart, axis, k), (x.shape[axis] - 1) / 2
    return plain_if_exact(Bounded(np.where(known, _first(order, axis, k), last), np.where(known, 0.0, last), INT64))


def _first(x: Any, axis: int, k: int) -> Any:
    return x[(slice(None),) * axis + (slice(0, k),)]


def _topk_rule(attrs: Attrs, types: tuple[TensorType, ...]) -> TupleType:
    (x,) = types
    require_kind("topk", x.dtype, NUMERIC)
    k = attrs["k"]
    TOPK.require(is_int(attrs["axis"]), "C1", f"axis is {attrs['axis']!r}, not an integer")
    for flag in ("largest", "sorted", "stable"):
        TOPK.require(isinstance(attrs[flag], bool), "C2", f"{flag} is {attrs[flag]!r}, not True or False")
    axis = normalize_axis("topk", attrs["axis"], x.ndim)
    size = x.shape[axis]
    TOPK.require(is_dim(k), "C3", f"k is {k!r}; a size is wanted")
    over = isinstance(k, int) and isinstance(size, int) and k > size
    TOPK.require(not over, "C4", f"k is {k}, but axis {axis} of {x} has {size} elements")
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    return TupleType((TensorType(shape, x.dtype), TensorType(shape, INT64)))


TOPK = Operator(
    "topk",
    "The k largest or smallest elements along an axis in order, and their places; of equal elements the first comes"
    " first; NaN is larger than any number; -0 and +0 are equal",
    ("x",),
    "stepwise",
    _topk_rule,
    _topk,
    "exact; of intervals the k-th of their ends, and any place where they overlap",
    (
        Example((((2, 3, 5), "float32"),), {"k": 2, "axis": 1}),
        Example((((2, 5), "float32"),), {"k": 3, "largest": False, "sorted": False}),
        Example((((4, 3), "int32"),), {"k": 4, "axis": 0, "stable": False}),
    ),
    {
        "k": Attr("how many"),
        "axis": Attr("the axis, counted from the end where negative", -1),
        "largest": Attr("whether the largest are wanted, not the smallest", True),
        "sorted": Attr("whether the order matters; where it does not, this is one right order", True),
        "stable": Attr("whether of equal elements the first comes first; where not, any of them may", True),
    },
    {
        "C1": "axis is an integer",
        "C2": "largest, sorted and stable are True or False",
        "C3": "k is a size",
        "C4": "k is at most the size of the axis",
    },
    can_trap=True,
    source="ONNX TopK, docs/Operators.md; TVM relax.op.topk",
)

TABLE: tuple[Operator, ...] = (
    _running(
        "cumsum", "The sum of the elements up to each place of an axis; integers wrap", np.add, np.sum,
        "at each place the bound of the sum of the elements before it; integers exact", "CumSum",
    ),
    _running(
        "cumprod", "The product of the elements up to each place of an axis; integers wrap", np.multiply, np.prod,
        "at each place the bound of the product of the elements before it; integers exact", "CumProd",
    ),
    TOPK,
)  # fmt: skip

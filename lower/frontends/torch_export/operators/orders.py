"""Elements by their rank, and the largest so far (specs/lower.md, "torch.export").

PyTorch: torch.median, torch.nanmedian, torch.kthvalue, torch.cummax, torch.cummin. Of equal elements the first three
may give the place of any; of the running ones the last counts, and NaN is beyond every number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from assay.lower.frontends.torch_export.node import AtenNode, AtenRule, aten_type
from assay.lower.frontends.torch_export.operators.elementwise import constant_like
from assay.lower.frontends.torch_export.operators.indexing import counted, elements_at
from assay.lower.frontends.torch_export.operators.reduction import kept
from assay.semantics.dtypes import BOOL, DTYPES, INT64
from assay.semantics.graph import Expr
from assay.semantics.ops.sizes import floor_div, product
from assay.semantics.scalar import Dim, simplify

# --- by rank


def median(over: bool) -> AtenRule:
    """The lower one of the two in the middle, of all elements or along an axis, and its place. NaN where one is; or,
    `over` them, that of the others."""

    def rule(node: AtenNode) -> Expr | list[Expr]:
        x, whole = node.tensor(), "dim" not in node.args
        shape = aten_type(x).shape
        axis = 0 if whole else node.axis(len(shape))
        if whole or not shape:
            x = node.shaped(x, product(shape))
        size = aten_type(x).shape[axis]
        if size == 0:
            if whole and aten_type(x).dtype.is_float:
                return node.full((), math.nan, aten_type(x).dtype)
            raise node.wrong("there are no elements")
        value = _over_nan(node, x, axis, size) if over else _middle(node, x, axis, size)
        if whole:
            return node.shaped(value)
        return with_place(node, x, value, axis, shape)

    return rule


def kthvalue(node: AtenNode) -> list[Expr]:
    """The k-th smallest element along an axis, and its place; NaN is above all numbers."""
    x, k = node.tensor(), node.whole("k")
    shape = aten_type(x).shape
    axis = node.axis(len(shape), default=-1)
    x = x if shape else node.shaped(x, 1)
    size = aten_type(x).shape[axis]
    if k < 1 or isinstance(size, int) and k > size:
        raise node.wrong(f"k is {k} for {size} elements")
    value = _smallest(node, _without_nan(node, x), k, axis)
    if aten_type(x).dtype.is_float:
        beyond = node.call("greater_equal", node.constant(k - 1, INT64), _numbers(node, x, axis))
        value = node.call("where", beyond, constant_like(node, math.nan, value), value)
    return with_place(node, x, value, axis, shape)


def _without_nan(node: AtenNode, x: Expr) -> Expr:
    """Infinity for NaN, which the smallest elements never reach."""
    of = aten_type(x).dtype
    if of is BOOL:
        return node.cast(x, DTYPES["uint8"])
    if not of.is_float:
        return x
    return node.call("where", node.call("equal", x, x), x, constant_like(node, math.inf, x))


def _numbers(node: AtenNode, x: Expr, axis: int) -> Expr:
    """How many elements along an axis are no NaN."""
    return node.call("sum", node.cast(node.call("equal", x, x), INT64), axis=(axis,), keepdims=True)


def _smallest(node: AtenNode, x: Expr, k: Dim, axis: int) -> Expr:
    """The k-th smallest element along an axis, which stays."""
    found = node.call("topk", x, k=k, axis=axis, largest=False, stable=False)
    return node.cut(node.field(found, 0), axis, simplify(k - 1), k)


def _middle(node: AtenNode, x: Expr, axis: int, size: Dim) -> Expr:
    value = _smallest(node, _without_nan(node, x), floor_div(simplify(size + 1), 2), axis)
    if aten_type(x).dtype.is_float:
        less = node.call("less", _numbers(node, x, axis), node.amount(size))
        value = node.call("where", less, constant_like(node, math.nan, value), value)
    return value


def _over_nan(node: AtenNode, x: Expr, axis: int, size: Dim) -> Expr:
    if not aten_type(x).dtype.is_float:
        return _middle(node, x, axis, size)
    found = node.call("topk", _without_nan(node, x), k=size, axis=axis, largest=False, stable=False)
    count = _numbers(node, x, axis)
    last = node.call("maximum", node.call("subtract", count, 1), 0)
    place = node.call("floor_divide", last, 2)
    value = node.call("gather_nd", node.field(found, 0), elements_at(node, place, axis))
    return node.call("where", node.call("equal", count, 0), constant_like(node, math.nan, value), value)


def with_place(node: AtenNode, x: Expr, value: Expr, axis: int, shape: Sequence[Dim]) -> list[Expr]:
    """A value of each row of x, whose axis stays, as the operator gives it, and a place where it is: any."""
    value = node.cast(value, aten_type(x).dtype)
    here = node.call("equal", x, value)
    if aten_type(x).dtype.is_float:
        both = node.call("logical_and", node.call("not_equal", x, x), node.call("not_equal", value, value))
        here = node.call("logical_or", here, both)
    found = node.call("topk", node.cast(here, DTYPES["uint8"]), k=1, axis=axis, stable=False)
    rest = [d for a, d in enumerate(shape) if a != axis]
    return [v if kept(node) and shape else node.shaped(v, *rest) for v in (value, node.field(found, 1))]


# --- running


def running_extreme(op: str) -> AtenRule:
    """The largest or smallest element up to each place, and the last place where it is."""

    def rule(node: AtenNode) -> list[Expr]:
        x = node.tensor()
        of = aten_type(x)
        if not of.ndim:
            return [x, node.constant(0, INT64)]
        axis = node.axis(of.ndim)
        size = of.shape[axis]
        if not isinstance(size, int):
            raise node.unsupported(f"an axis of size {size}, which has to be a number,")
        value = node.cast(x, DTYPES["uint8"]) if of.dtype is BOOL else x
        place = counted(node, of.shape, axis)
        step = 1
        while step < size:  # each place meets the one that is a step before it, which has met as many
            later = [node.cut(v, axis, step, size) for v in (value, place)]
            former = [node.cut(v, axis, 0, size - step) for v in (value, place)]
            taken = node.call(op, later[0], former[0])
            if of.dtype.is_float:
                number = node.call("equal", former[0], former[0])
                taken = node.call("logical_and", taken, number)
                taken = node.call("logical_or", taken, node.call("not_equal", later[0], later[0]))
            met = [node.call("where", taken, a, b) for a, b in zip(later, former, strict=True)]
            value, place = (
                node.call("concat", node.cut(v, axis, 0, step), m, axis=axis)
                for v, m in zip((value, place), met, strict=True)
            )
            step *= 2
        return [node.cast(value, of.dtype), place]

    return rule


TABLE: dict[str, AtenRule] = {
    "cummax": running_extreme("greater_equal"),
    "cummin": running_extreme("less_equal"),
    "kthvalue": kthvalue,
    "median": median(over=False),
    "nanmedian": median(over=True),
}

"""Reductions of ONNX (specs/lower.md, "Import").

The axes are an attribute before version 13 (ReduceSum) or 18 (the others), and an operand since. No axes means all of
them, unless `noop_with_empty_axes` says none.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from assay.lower.frontends import stretching
from assay.lower.frontends.onnx.node import Node, Result, Rule, tensor
from assay.semantics.composed.maker import numbered
from assay.semantics.dtypes import BOOL, FLOAT64, INT64
from assay.semantics.graph import Expr
from assay.semantics.ops.common import normalize_axes
from assay.semantics.ops.sizes import larger, never_negative, product
from assay.semantics.scalar import Dim


def axes_of(node: Node) -> tuple[int, ...]:
    """The axes that are reduced, counted from the front."""
    rank = tensor(node[0]).ndim
    given = node.attrs["axes"] if "axes" in node.attrs else node.ints(1) if node.has(1) else ()
    if not given:
        return () if node.attrs.get("noop_with_empty_axes") else tuple(range(rank))
    return normalize_axes(str(node), given, rank)


def _reduced(op: str, node: Node, x: Expr | None = None, keep: bool | None = None) -> Expr:
    keepdims = bool(node.attrs["keepdims"]) if keep is None else keep
    return node.call(op, node[0] if x is None else x, axis=axes_of(node), keepdims=keepdims)


def mean(node: Node) -> Expr:
    """Of integers, the quotient of sum and count, rounded to zero as in ONNX Runtime; the documentation is silent. The
    sum has 64 bits, so only one of such numbers may wrap."""
    x = tensor(node[0])
    if x.dtype.is_float:
        return _reduced("mean", node)
    count = product([x.shape[a] for a in axes_of(node)])
    if not isinstance(count, int):
        raise node.unsupported(f"the number of elements that are averaged is {count}; give the symbolic dims values")
    wide = x.dtype if x.dtype.bits == 64 else INT64
    total = _reduced("sum", node, node.cast(node[0], wide))
    return node.cast(node.call("truncate_divide", total, count), x.dtype)


def _extreme(op: str, node: Node) -> Expr:
    """Of no elements the result is the dtype's lowest or highest value, an infinity where it has one."""
    return extreme_of(node, op, node[0], axes_of(node), keep=bool(node.attrs["keepdims"]))


def extreme_of(node: Node, op: str, given: Expr, axes: Sequence[int], *, keep: bool) -> Expr:
    """The largest or smallest along some axes. Our operator has no value of no elements: that value is given where an
    axis has size 0, and is one more element where a size may be 0, which changes no other result."""
    x = tensor(given)
    infinite = float("-inf" if op == "max" else "inf")
    lowest = infinite if x.dtype.is_float else x.dtype.min if op == "max" else x.dtype.max
    if any(isinstance(x.shape[a], int) and x.shape[a] == 0 for a in axes):
        shape = tuple(1 if a in axes else d for a, d in enumerate(x.shape) if keep or a not in axes)
        return node.full(shape, lowest, x.dtype)
    more = tuple(int(a in axes and not never_negative(d - 1)) for a, d in enumerate(x.shape))
    if any(more):
        width = (0,) * x.ndim + more
        given = node.call("nn.pad", given, pad_width=width, mode="constant", pad_value=lowest)
    return node.call(op, given, axis=tuple(axes), keepdims=keep)


def _squares(node: Node) -> Expr:
    return _reduced("sum", node, node.call("multiply", node[0], node[0]))


def _wide(node: Node, op: str, x: Expr) -> Expr:
    """Of integers taken in float64, as in ONNX's bodies, and rounded to zero."""
    of = tensor(x).dtype
    return node.call(op, x) if of.is_float else node.cast(node.call(op, node.cast(x, FLOAT64)), of)


def log_sum_exp(node: Node) -> Expr:
    """ln(sum of exp(x - m)) + m with the largest m: exp(x) would overflow where the result does not."""
    of = tensor(node[0]).dtype
    x = node[0] if of.is_float else node.cast(node[0], FLOAT64)
    peak = extreme_of(node, "max", x, axes_of(node), keep=True)
    peak = node.call("where", node.call("equal", node.call("abs", peak), float("inf")), 0.0, peak)
    total = _reduced("sum", node, node.call("exp", node.call("subtract", x, peak)), keep=True)
    result = node.call("add", node.call("log", total), peak)
    if not node.attrs["keepdims"]:
        result = node.shaped(result, tensor(_reduced("sum", node, x)).shape)
    return node.cast(result, of)


# --- places -------------------------------------------------------------------------------------------------------


def place_of(node: Node, op: str, x: Expr, axis: int, *, keep: bool, last: bool = False, or_none: bool = False) -> Expr:
    """The first or last place of the largest or smallest element along an axis; that of a NaN, where there is one. Of
    no elements there is none, and the run traps; with `or_none` it is anything."""

    def extreme(op: str, of: Expr, keep: bool) -> Expr:
        if or_none:
            return extreme_of(node, op, of, (axis,), keep=keep)
        return node.call(op, of, axis=(axis,), keepdims=keep)

    found = node.call("equal", x, extreme(op, x, True))
    if tensor(x).dtype.is_float:
        found = node.call("logical_or", found, node.call("not_equal", x, x))
    size = tensor(x).shape[axis]
    beyond = -1 if last else size if isinstance(size, int) else 2**63 - 1
    marked = node.call("where", found, numbered(node, x, axis), beyond)
    return extreme("max" if last else "min", marked, keep)


def _arg(op: str, node: Node) -> Expr:
    axis = node.axis(tensor(node[0]).ndim)
    last = bool(node.attrs.get("select_last_index"))
    return place_of(node, op, node[0], axis, keep=bool(node.attrs["keepdims"]), last=last)


def hardmax(node: Node) -> Expr:
    """1 at the first largest element, else 0: along an axis since version 13, before over all axes from `axis` on."""
    x = tensor(node[0])
    axis = node.axis(x.ndim)
    given = node[0]
    if node.version < 13:
        given = node.shaped(given, (product(x.shape[:axis]), product(x.shape[axis:])))
        axis = 1
    size = tensor(given).shape[axis]
    if isinstance(size, int) and size == 0:
        return node[0]  # no elements, and none that is the largest
    place = place_of(node, "max", given, axis, keep=True, or_none=True)
    hot = node.call("equal", numbered(node, given, axis), place)
    return node.shaped(node.cast(hot, x.dtype), x.shape)


def lp_normalization(node: Node) -> Expr:
    """x divided by its norm along an axis, 0 where that is 0."""
    x, p = node[0], node.attrs["p"]
    if p not in (1, 2):
        raise node.wrong(f"p is {p}; 1 or 2 is wanted")
    axis = node.axis(tensor(x).ndim)
    terms = node.call("abs", x) if p == 1 else node.call("multiply", x, x)
    norm = node.call("sum", terms, axis=(axis,), keepdims=True)
    norm = norm if p == 1 else node.call("sqrt", norm)
    return node.call("where", node.call("equal", norm, 0.0), 0.0, node.call("divide", x, norm))


# --- along an axis ------------------------------------------------------------------------------------------------


def _running(op: str, node: Node) -> Expr:
    (axis,) = _one(node, 1)
    more: dict[str, Any] = {name: bool(node.attrs[name]) for name in ("exclusive", "reverse")}
    return node.call(op, node[0], axis=axis, **more)


def _one(node: Node, index: int) -> tuple[int]:
    found = node.ints(index)
    if len(found) != 1:
        raise node.wrong(f"operand {node.schema.operand(index).name} is {found}; one number is wanted")
    return (found[0],)


def topk(node: Node) -> Sequence[Result]:
    """The k largest, or since version 11 smallest, elements and their places; unsorted ones in any order.

    Of equal elements the first comes first; the order of NaN is left open, here it is the largest.
    """
    more = {name: bool(node.attrs.get(name, 1)) for name in ("largest", "sorted")}
    found: tuple[Dim, ...] = (node.attrs["k"],) if "k" in node.attrs else node.sizes(1)
    if len(found) != 1:
        raise node.wrong(f"operand K is {found}; one number is wanted")
    (k,) = found
    x, of = node[0], tensor(node[0])
    axis = node.axis(of.ndim)
    enough = larger(of.shape[axis], k)
    if not (isinstance(k, int) and isinstance(of.shape[axis], int)):  # the run checks that there are as many
        x = stretching.claimed(node.builder, x, [enough if a == axis else d for a, d in enumerate(of.shape)])
    return node.fields(node.call("topk", x, k=k, axis=axis, **more), 2)


def trilu(node: Node) -> Expr:
    """The part of the matrices on and above the diagonal `k`, or on and below it; 0 elsewhere."""
    x = node[0]
    if tensor(x).ndim < 2:
        raise node.wrong(f"operand input is {x.type}; at least two axes are wanted")
    rows = numbered(node, x, tensor(x).ndim - 2)
    if node.has(1):
        rows = node.call("add", rows, node.shaped(node[1], ()))
    columns = numbered(node, x, tensor(x).ndim - 1)
    inside = node.call("greater_equal" if node.attrs["upper"] else "less_equal", columns, rows)
    if tensor(x).dtype is BOOL:
        return node.call("logical_and", inside, x)
    return node.call("where", inside, x, 0)


TABLE: dict[str, Rule] = {
    "ArgMax": partial(_arg, "max"),
    "ArgMin": partial(_arg, "min"),
    "CumProd": partial(_running, "cumprod"),
    "CumSum": partial(_running, "cumsum"),
    "Hardmax": hardmax,
    "LpNormalization": lp_normalization,
    "ReduceL1": lambda node: _reduced("sum", node, node.call("abs", node[0])),
    "ReduceL2": lambda node: _wide(node, "sqrt", _squares(node)),
    "ReduceLogSum": lambda node: _wide(node, "log", _reduced("sum", node)),
    "ReduceLogSumExp": log_sum_exp,
    "ReduceMax": partial(_extreme, "max"),
    "ReduceMean": mean,
    "ReduceMin": partial(_extreme, "min"),
    "ReduceProd": partial(_reduced, "prod"),
    "ReduceSum": partial(_reduced, "sum"),
    "ReduceSumSquare": _squares,
    "TopK": topk,
    "Trilu": trilu,
}

"""Reductions, orders and running sums of ATen (specs/lower.md, "torch.export").

PyTorch: https://docs.pytorch.org/docs/stable/torch.html#reduction-ops. Narrow floats are added up in float32.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from assay.lower.frontends.torch_export.node import AtenNode, AtenRule, aten_type, truth
from assay.lower.frontends.torch_export.operators.arithmetic import larger_of, smallest, two
from assay.lower.frontends.torch_export.operators.elementwise import constant_like
from assay.semantics.dtypes import BOOL, DTYPES, FLOAT32, INT64, DType
from assay.semantics.graph import Expr
from assay.semantics.ops.sizes import product
from assay.semantics.scalar import Dim


def kept(node: AtenNode) -> bool:
    """Whether axes that are reduced stay, with size 1."""
    return node.flag("keepdim")


def summed(op: str) -> AtenRule:
    """A sum, product or mean in the dtype that is asked for; of whole numbers and bools in int64."""

    def rule(node: AtenNode) -> Expr:
        x = node.tensor()
        of = aten_type(x).dtype
        to = node.dtype(of if of.is_float else INT64)
        axes = node.axes(aten_type(x).ndim)
        # products of narrow floats are rounded one by one, unless they are kept wider
        y = node.cast(x, to) if op == "prod" else node.work(node.cast(x, to))
        return node.cast(node.call(op, y, axis=axes, keepdims=kept(node)) if axes else y, to)

    return rule


def prod(node: AtenNode) -> Any:
    """The product, of an axis or of all."""
    if "dim" in node.args:
        node = node.with_(dim=[node.whole("dim")])
    return summed("prod")(node)


def extreme(op: str) -> AtenRule:
    """The largest or smallest element along axes; NaN where one is."""

    def rule(node: AtenNode) -> Expr:
        x = node.tensor()
        axes = node.axes(aten_type(x).ndim)
        return node.call(op, x, axis=axes, keepdims=kept(node)) if axes else x

    return rule


def first_place(node: AtenNode, x: Expr, axis: int, most: bool) -> tuple[Expr, Expr]:
    """The largest or smallest element along an axis, which stays, and its place, the first of equal ones; NaN before
    all numbers, either way."""
    of = aten_type(x).dtype
    work = node.cast(x, DTYPES["uint8"]) if of is BOOL else x
    turned = of.is_float and not most  # topk has NaN above all numbers
    work = node.call("negative", work) if turned else work
    found = node.call("topk", work, k=1, axis=axis, largest=most or turned, sorted=True)
    value = node.field(found, 0)
    back: Expr = node.call("negative", value) if turned else value
    return node.cast(back, of), node.field(found, 1)


def extreme_place(most: bool) -> AtenRule:
    """`max` and `min`: of all elements, along an axis with places, or of two tensors."""
    whole, met = (extreme("max"), two(larger_of)) if most else (extreme("min"), two(smallest))

    def rule(node: AtenNode) -> Any:
        if "other" in node.args:
            return met(node)
        if "dim" not in node.args:
            return whole(node)
        x = node.tensor()
        shape = aten_type(x).shape
        axis = node.axis(len(shape))
        value, place = first_place(node, x if shape else node.shaped(x, 1), axis, most)
        return [_without(node, v, shape, axis) for v in (value, place)]

    return rule


def _without(node: AtenNode, x: Expr, shape: Sequence[Dim], axis: int) -> Expr:
    """A tensor whose axis has size 1, without it unless it stays."""
    if kept(node) and shape:
        return x
    return node.shaped(x, *(d for a, d in enumerate(shape) if a != axis))


def arg_extreme(most: bool) -> AtenRule:
    """The place of the largest or smallest element along an axis, or of all in row-major order."""

    def rule(node: AtenNode) -> Expr:
        x = node.tensor()
        shape = aten_type(x).shape
        if not node.has("dim"):
            _, place = first_place(node, node.shaped(x, product(shape)), 0, most)
            return node.shaped(place, *(1 for _ in shape if kept(node)))
        axis = node.axis(len(shape))
        return _without(node, first_place(node, x if shape else node.shaped(x, 1), axis, most)[1], shape, axis)

    return rule


def quantified(every: bool) -> AtenRule:
    """Whether any elements along axes are not 0, or all are: of none no one is, and all are."""

    def rule(node: AtenNode) -> Expr:
        x = node.tensor()
        if isinstance(node.args.get("dim"), int):
            node = node.with_(dim=[node.whole("dim")])
        axes = node.axes(aten_type(x).ndim)
        held = truth(node, x)
        if axes and 0 in aten_type(x).shape:
            shape = [1 if a in axes else d for a, d in enumerate(aten_type(x).shape) if a not in axes or kept(node)]
            return node.full(shape, every, node.result().dtype)
        if not axes:
            return node.cast(held, node.result().dtype)
        if all(isinstance(aten_type(x).shape[a], int) for a in axes):
            made = node.call("min" if every else "max", held, axis=axes, keepdims=kept(node))
        else:  # there may be none
            counted = node.cast(node.call("logical_not", held) if every else held, INT64)
            total = node.call("sum", counted, axis=axes, keepdims=kept(node))
            made = node.call("equal" if every else "not_equal", total, 0)
        return node.cast(made, node.result().dtype)

    return rule


def deviations(node: AtenNode, x: Expr, axes: Sequence[int]) -> tuple[Expr, Expr]:
    """The mean along axes, which stay, and the sum of the squares of what elements are off from it."""
    mean = node.call("mean", x, axis=tuple(axes), keepdims=True)
    off = node.call("subtract", x, mean)
    return mean, node.call("sum", node.call("multiply", off, off), axis=tuple(axes), keepdims=True)


def count_of(node: AtenNode, x: Expr, axes: Sequence[int], of: DType) -> Expr:
    """How many elements there are along axes."""
    return node.as_tensor(product([aten_type(x).shape[a] for a in axes]), of)


def correction_of(node: AtenNode) -> float:
    """What is taken from the number of elements: 1 where nothing is said."""
    if "unbiased" in node.args:
        return 1 if node.flag("unbiased") else 0
    return node.number("correction", 1)


def variance(root: bool, with_mean: bool) -> AtenRule:
    """The variance along axes, or its root; and the mean."""

    def rule(node: AtenNode) -> Expr | list[Expr]:
        x = node.tensor()
        of, shape = aten_type(x).dtype, aten_type(x).shape
        axes = node.axes(len(shape))
        mean, squares = deviations(node, node.work(x), axes)
        kind = aten_type(squares).dtype
        count = node.call("subtract", count_of(node, x, axes, kind), correction_of(node))
        y = node.call("divide", squares, node.call("maximum", count, 0))
        y = node.call("sqrt", y) if root else y
        rest = [d for a, d in enumerate(shape) if a not in axes]
        both = [v if kept(node) else node.shaped(v, *rest) for v in (y, mean)]
        both = [node.cast(v, of) for v in both]
        return both if with_mean else both[0]

    return rule


def logsumexp(node: AtenNode) -> Expr:
    """log(sum(e^x)), by what x is above its largest element."""
    x = node.tensor()
    of = aten_type(x).dtype if aten_type(x).dtype.is_float else FLOAT32
    x = node.work(node.cast(x, of))
    axes = node.axes(aten_type(x).ndim)
    shape = aten_type(x).shape
    if any(shape[a] == 0 for a in axes):  # the logarithm of 0, which is the sum of nothing
        left = [1 if a in axes else d for a, d in enumerate(shape) if kept(node) or a not in axes]
        return node.full(left, -math.inf, of)
    if not axes:
        return node.cast(x, of)
    most = node.call("max", x, axis=axes, keepdims=True)
    endless = node.call("equal", node.call("abs", most), math.inf)
    most = node.call("where", endless, constant_like(node, 0, x), most)
    total = node.call("sum", node.call("exp", node.call("subtract", x, most)), axis=axes, keepdims=True)
    y = node.call("add", node.call("log", total), most)
    return node.cast(y if kept(node) else node.shaped(y, *(d for a, d in enumerate(shape) if a not in axes)), of)


def norm(node: AtenNode, x: Expr, power: float, axes: tuple[int, ...], keep: bool) -> Expr:
    """(sum |x|^p)^(1/p) along axes."""
    size = node.call("abs", x)
    if math.isinf(power):
        return node.call("max" if power > 0 else "min", size, axis=axes, keepdims=keep)
    if power == 0:
        there = node.cast(node.call("not_equal", size, 0), aten_type(size).dtype)
        return node.call("sum", there, axis=axes, keepdims=keep)
    if power == 1:
        return node.call("sum", size, axis=axes, keepdims=keep)
    if power == 2:
        return node.call("sqrt", node.call("sum", node.call("multiply", size, size), axis=axes, keepdims=keep))
    total = node.call("sum", node.call("power", size, power), axis=axes, keepdims=keep)
    return node.call("power", total, 1 / power)


def vector_norm(node: AtenNode) -> Expr:
    """The norm of a tensor along axes."""
    x = node.tensor()
    power = float(node.number("ord" if "ord" in node.args else "p", 2))
    to = node.dtype(aten_type(x).dtype)
    y = norm(node, node.work(node.cast(x, to)), power, node.axes(aten_type(x).ndim), kept(node))
    return node.cast(y, to)


def running(op: str) -> AtenRule:
    """Sums or products up to each place."""

    def rule(node: AtenNode) -> Expr:
        x = node.tensor()
        of = aten_type(x).dtype
        to = node.dtype(of if of.is_float else INT64)
        y = node.work(node.cast(x, to))
        if aten_type(x).ndim:
            y = node.call(op, y, axis=node.axis(aten_type(x).ndim))
        return node.cast(y, to)

    return rule


def sort(node: AtenNode) -> list[Expr]:
    """Elements in order along an axis, and their places. NaN is above all numbers; equal ones stay in order where the
    sort is stable, and else stand in any."""
    x = node.tensor()
    shape = aten_type(x).shape
    if not shape:
        return [x, node.constant(0, INT64)]
    axis = node.axis(len(shape), default=-1)
    return ordered(node, x, shape[axis], axis, largest=node.flag("descending"), stable=node.flag("stable"))


def ordered(node: AtenNode, x: Expr, count: Dim, axis: int, **how: bool) -> list[Expr]:
    """The first elements in order, and their places."""
    of = aten_type(x).dtype
    work = node.cast(x, DTYPES["uint8"]) if of is BOOL else x
    found = node.call("topk", work, k=count, axis=axis, **how)
    return [node.cast(node.field(found, 0), of), node.field(found, 1)]


def topk(node: AtenNode) -> list[Expr]:
    """The k largest or smallest elements along an axis, and their places; of equal ones any may be taken."""
    x = node.tensor()
    axis = node.axis(aten_type(x).ndim, default=-1)
    how = {"largest": node.flag("largest", True), "sorted": node.flag("sorted", True)}
    return ordered(node, x, node.sizes("k")[0], axis, stable=False, **how)


def count_nonzero(node: AtenNode) -> Expr:
    """How many elements along axes are not 0."""
    x = node.tensor()
    if isinstance(node.args.get("dim"), int):
        node = node.with_(dim=[node.whole("dim")])
    held = node.cast(truth(node, x), INT64)
    axes = node.axes(aten_type(x).ndim)
    return node.call("sum", held, axis=axes, keepdims=False) if axes else held


TABLE: dict[str, AtenRule] = {
    "all": quantified(every=True),
    "amax": extreme("max"),
    "amin": extreme("min"),
    "aminmax": lambda node: [extreme("min")(_one_axis(node)), extreme("max")(_one_axis(node))],
    "any": quantified(every=False),
    "argmax": arg_extreme(most=True),
    "argmin": arg_extreme(most=False),
    "argsort": lambda node: sort(node)[1],
    "count_nonzero": count_nonzero,
    "cumprod": running("cumprod"),
    "cumsum": running("cumsum"),
    "linalg_vector_norm": vector_norm,
    "logsumexp": logsumexp,
    "max": extreme_place(most=True),
    "mean": summed("mean"),
    "min": extreme_place(most=False),
    "norm": vector_norm,
    "prod": prod,
    "sort": sort,
    "std": variance(root=True, with_mean=False),
    "std_mean": variance(root=True, with_mean=True),
    "sum": summed("sum"),
    "topk": topk,
    "var": variance(root=False, with_mean=False),
    "var_mean": variance(root=False, with_mean=True),
}


def _one_axis(node: AtenNode) -> AtenNode:
    return node.with_(dim=[node.whole("dim")]) if node.has("dim") else node

"""Pooling of ONNX (specs/lower.md, "Import")."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from assay.lower.frontends.onnx.node import Node, Result, Rule, tensor
from assay.lower.frontends.onnx.operators.contraction import image, padding, per_axis, spatial_rank
from assay.lower.frontends.onnx.operators.quantization import wide
from assay.lower.frontends.onnx.operators.reduction import place_of
from assay.semantics.composed.terms import Term
from assay.semantics.dtypes import INT64
from assay.semantics.errors import Invalid
from assay.semantics.graph import Expr
from assay.semantics.ops.pooling import Axis
from assay.semantics.ops.sizes import product


def _geometry(node: Node) -> dict[str, Any]:
    """The attributes of our pooling operators that say where windows are."""
    rank = spatial_rank(node)
    kernel = per_axis(node, "kernel_shape", rank)
    strides, dilations = per_axis(node, "strides", rank), per_axis(node, "dilations", rank)
    pads, automatic = padding(node, kernel, strides, dilations)
    # auto_pad fixes the number of windows, whatever ceil_mode says
    ceil = bool(node.attrs.get("ceil_mode")) and not automatic
    return {"pool_size": kernel, "strides": strides, "padding": pads, "dilation": dilations, "ceil_mode": ceil}


def _windows(node: Node, op: str, **more: bool) -> Expr:
    return node.call(f"{op}{spatial_rank(node)}d", node[0], **_geometry(node), **more)


def max_pool(node: Node) -> Sequence[Result]:
    """Translate MaxPool: the maxima, and their flat positions if the node wants them."""
    return [_windows(node, "nn.max_pool"), *([_places(node)] if node.wants(1) else [])]


def _places(node: Node) -> Expr:
    """Where the first maximum of each window is, counted over the whole operand without padding.

    Storage order 1 counts the first spatial axis fastest. A place in the padding stands for the nearest one of its
    window that is not: that is read twice, and the first maximum is the same.
    """
    rank, x = spatial_rank(node), tensor(node[0])
    sizes = tuple(d for d in x.shape[2:] if isinstance(d, int))
    if len(sizes) != rank:
        raise node.unsupported(f"the places of the maxima of {x}; give the symbolic dims of its spatial axes values")
    attrs = _geometry(node)
    tables = [_read(node, Axis(attrs, rank, k), size) for k, size in enumerate(sizes)]
    windows = Term(node, node[0])
    for k, table in enumerate(tables):
        places = node.constant(table, INT64)
        windows = Term(node, node.call("take", windows.expr, places, axis=2 + 2 * k))
    order = (0, 1, *range(2, 2 + 2 * rank, 2), *range(3, 3 + 2 * rank, 2))
    counts, taps = [len(t) for t in tables], [t.shape[1] for t in tables]
    node.require_room(prod(taps))
    elements = windows.moved(order).shaped(*x.shape[:2], *counts, prod(taps))
    first = place_of(node, "max", elements.expr, 2 + rank, keep=False)
    found = Term(node, node.call("arange", size=product(x.shape[:2]), dtype="int64"))
    found = (found * prod(sizes)).shaped(*x.shape[:2], *(1,) * rank)
    for k, table in enumerate(tables):
        step = prod(sizes[:k]) if node.attrs.get("storage_order") else prod(sizes[k + 1 :])
        tap = node.constant(np.unravel_index(np.arange(prod(taps)), taps)[k], INT64)
        row = node.constant((np.arange(counts[k]) * taps[k]).reshape(-1, *(1,) * (rank - 1 - k)), INT64)
        place = node.call("add", node.call("take", tap, first, axis=0), row)
        found = found + Term(node, node.call("take", node.constant(table.reshape(-1) * step, INT64), place, axis=0))
    return found.expr


def _read(node: Node, axis: Axis, size: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The place that each tap of each window reads: [windows, taps]."""
    if (fault := axis.fault(size, False)) is not None:
        raise Invalid(fault[1], label="onnx.C12")
    node.require_room(axis.count(size) * axis.taps)
    places = np.arange(axis.count(size))[:, None] * axis.stride - axis.before + np.arange(axis.taps) * axis.dilation
    inside = (places >= 0) & (places < size)
    low = np.where(inside, places, size).min(axis=1, keepdims=True)
    high = np.where(inside, places, -1).max(axis=1, keepdims=True)
    return np.asarray(np.clip(places, low, high))


def average_pool(node: Node) -> Expr:
    """Translate AveragePool; `count_include_pad` says whether padding counts in the divisor."""
    return _windows(node, "nn.avg_pool", count_include_pad=bool(node.attrs.get("count_include_pad")))


def lp_pool(node: Node) -> Expr:
    """The norm of each window: its sum is a convolution of each channel by ones."""
    rank, x, attrs = spatial_rank(node), tensor(node[0]), _geometry(node)
    padding = list(attrs["padding"])
    if attrs.pop("ceil_mode"):
        for k, size in enumerate(x.shape[2:]):
            if not isinstance(size, int):
                raise node.unsupported(f"ceil_mode over {x}; give the symbolic dims of its spatial axes values")
            axis = Axis({**attrs, "ceil_mode": True}, rank, k)
            padding[k + rank] = max(0, axis.needed(size, axis.count(size)))
    kernel = attrs.pop("pool_size")
    terms = _powers(node).shaped(product(x.shape[:2]), 1, *x.shape[2:])
    node.require_room(prod(kernel))
    ones = node.constant(np.ones((1, 1, *kernel)), terms.type.dtype)
    attrs["padding"] = tuple(padding)
    total = Term(node, node.call(f"nn.conv{rank}d", terms.expr, ones, groups=1, **attrs))
    return _root(node, total.shaped(*x.shape[:2], *total.type.shape[2:]))


def global_lp_pool(node: Node) -> Expr:
    """Translate GlobalLpPool: the p-norm over all spatial axes, which stay with size 1."""
    terms = _powers(node)
    return _root(node, terms.sum(*range(2, image(node).ndim), keep=True))


def _powers(node: Node) -> Term:
    """|x| ** p, in at least float32."""
    p = float(node.attrs["p"])
    if not p > 0:
        raise node.wrong(f"p is {p}; a positive number is wanted")
    x = Term(node, node.cast(node[0], wide(tensor(node[0]).dtype)))
    return abs(x) if p == 1 else x * x if p == 2 else abs(x).power(p)


def _root(node: Node, total: Term) -> Expr:
    p = float(node.attrs["p"])
    y = total if p == 1 else total.sqrt() if p == 2 else total.power(1 / p)
    return node.cast(y.expr, tensor(node[0]).dtype)


def _global(op: str) -> Rule:
    return lambda node: node.call(op, node[0], axis=tuple(range(2, image(node).ndim)), keepdims=True)


TABLE: dict[str, Rule] = {
    "AveragePool": average_pool,
    "GlobalAveragePool": _global("mean"),
    "GlobalLpPool": global_lp_pool,
    "GlobalMaxPool": _global("max"),
    "LpPool": lp_pool,
    "MaxPool": max_pool,
}

"""Pooling of ONNX (specs/lower.md, "Import")."""

from __future__ import annotations

from collections.abc import Sequence

from assay.lower.onnx_ops.contraction import padding, per_axis, spatial_rank
from assay.lower.onnx_ops.node import Node, Refused, Result, Rule, tensor
from assay.semantics.graph import Expr


def _windows(node: Node, op: str, **more: bool) -> Expr:
    rank = spatial_rank(node)
    kernel = per_axis(node, "kernel_shape", rank)
    strides, dilations = per_axis(node, "strides", rank), per_axis(node, "dilations", rank)
    pads, automatic = padding(node, kernel, strides, dilations)
    # auto_pad fixes the number of windows, whatever ceil_mode says
    ceil = bool(node.attrs.get("ceil_mode")) and not automatic
    return node.call(
        f"{op}{rank}d", node[0],
        pool_size=kernel, strides=strides, padding=pads, dilation=dilations, ceil_mode=ceil, **more,
    )  # fmt: skip


def max_pool(node: Node) -> Sequence[Result]:
    return [_windows(node, "nn.max_pool"), Refused("the places of the maxima, its second output, are not supported")]


def average_pool(node: Node) -> Expr:
    return _windows(node, "nn.avg_pool", count_include_pad=bool(node.attrs.get("count_include_pad")))


def _global(op: str) -> Rule:
    def rule(node: Node) -> Expr:
        x = tensor(node[0])
        if x.ndim < 3:
            raise node.wrong(f"operand X is {x}; axes N, C and at least one spatial are wanted")
        return node.call(op, node[0], axis=tuple(range(2, x.ndim)), keepdims=True)

    return rule


TABLE: dict[str, Rule] = {
    "AveragePool": average_pool,
    "GlobalAveragePool": _global("mean"),
    "GlobalMaxPool": _global("max"),
    "MaxPool": max_pool,
}

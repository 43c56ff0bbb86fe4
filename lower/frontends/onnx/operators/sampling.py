"""GridSample and DeformConv of ONNX as compositions (specs/lower.md, "Import").

Both read images between their elements, as `assay.semantics.composed.sampling` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from assay.lower.frontends.onnx.node import Node, Rule, same_shape, tensor
from assay.lower.frontends.onnx.operators.contraction import pads_of, per_axis
from assay.lower.frontends.onnx.operators.quantization import saturated, wide
from assay.semantics.composed.sampling import (
    around,
    between,
    channels_first,
    channels_last,
    mirrored,
    sampled_elements,
    unscaled,
)
from assay.semantics.composed.terms import Term, amount_of, line
from assay.semantics.dtypes import DType
from assay.semantics.graph import Expr
from assay.semantics.ops.common import show_shapes
from assay.semantics.ops.sizes import floor_div, product
from assay.semantics.scalar import Dim, provably_equal, simplify

# --- GridSample ---------------------------------------------------------------------------------------------------


def grid_sample(node: Node) -> Expr:
    """The last axis of the grid holds coordinates from -1 to 1, that of the last spatial axis first."""
    x, grid = tensor(node[0]), tensor(node[1])
    rank = x.ndim - 2
    if rank < 1 or grid.ndim != x.ndim or grid.shape[-1] != rank or not provably_equal(grid.shape[0], x.shape[0]):
        raise node.wrong(f"X is {x}, grid is {grid}; X[N, C, *spatial] and grid[N, *points, {rank}] are wanted")
    mode = node.attrs["mode"]
    kind = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode) if node.version < 20 else mode
    if kind not in ("nearest", "linear", "cubic") or (node.version < 20 and mode in ("linear", "cubic")):
        raise node.wrong(f"mode is {mode!r}; nearest, linear or cubic is wanted, bilinear or bicubic before version 20")
    padding = node.choice("padding_mode", "zeros", "border", "reflection")
    coordinates = Term(node, node.cast(node[1], wide(grid.dtype)))
    reads = []
    for k in range(rank):
        aligned, size = bool(node.attrs["align_corners"]), x.shape[k + 2]
        at = unscaled(coordinates.picked(rank - 1 - k, grid.ndim - 1), size, aligned=aligned)
        last = amount_of(node, size, at.type.dtype) - 1
        if padding == "border" and kind == "linear":  # elsewhere only the places are moved, as in ONNX Runtime
            at = at.at_least(0.0).at_most(last)
        elif padding == "reflection" and kind != "nearest":
            at = mirrored(at, last, 0.0 if aligned else 0.5)
        reads.append(around(at, size, kind, padding, aligned=aligned))
    to = x.dtype
    points = grid.shape[:-1]
    if kind == "nearest":
        found = sampled_elements(node, channels_last(Term(node, node[0])), reads, points)
        return channels_first(found.shaped(*points, x.shape[1])).expr
    found = sampled_elements(node, channels_last(Term(node, node.cast(node[0], wide(to)))), reads, points)
    y = channels_first(between(found, reads)).expr
    return saturated(node, y, None, to) if to.is_integer else node.cast(y, to)


# --- DeformConv ---------------------------------------------------------------------------------------------------


def deform_conv(node: Node) -> Expr:
    """A convolution whose elements of each window are moved by offsets, and weighed by a mask.

    offset[N, offset groups * elements * spatial, *points]: for each element of a window a distance along each axis.
    """
    x, w, offset = (tensor(node[i]) for i in range(3))
    rank = x.ndim - 2
    if rank < 1 or w.ndim != x.ndim or offset.ndim != x.ndim:
        raise node.wrong(f"X is {x}, W is {w}, offset is {offset}; axes N, C and spatial ones are wanted in all")
    kernel = tuple(k for k in w.shape[2:] if isinstance(k, int))
    if len(kernel) != rank or not same_shape(node.attrs["kernel_shape"] or kernel, kernel):
        raise node.wrong(f"kernel_shape is {node.attrs['kernel_shape']}, W is {w}; equal numbers are wanted")
    group, offsets, elements = node.attrs["group"], node.attrs["offset_group"], prod(kernel)
    points, (images, channels) = offset.shape[2:], x.shape[:2]
    if group < 1 or offsets < 1 or not provably_equal(channels, simplify(w.shape[1] * group)):
        raise node.wrong(f"X is {x}, W is {w}, group is {group}, offset_group is {offsets}; they do not fit")
    depth, features = floor_div(channels, offsets), floor_div(w.shape[0], group)
    if not provably_equal(simplify(depth * offsets), channels) or not provably_equal(features * group, w.shape[0]):
        raise node.wrong(
            f"{channels} channels and {w.shape[0]} features do not divide into {offsets} and {group} groups"
        )
    _fits(node, 2, (images, offsets * elements * rank, *_points(node, kernel)))
    many, wider = simplify(images * offsets), wide(x.dtype)
    moves = Term(node, node.cast(node[2], wider)).shaped(many, elements, rank, *points)
    source = Term(node, node.cast(node[0], wider)).shaped(many, depth, *x.shape[2:])
    reads = [
        around(
            moves.picked(k, 2) + _windows(node, kernel, k, points, wider),
            x.shape[k + 2], "linear", "zeros", aligned=False,
        )
        for k in range(rank)
    ]  # fmt: skip
    found = between(sampled_elements(node, channels_last(source), reads, (many, elements, *points)), reads)
    if node.has(4):
        _fits(node, 4, (images, offsets * elements, *points))
        found = found * Term(node, node.cast(node[4], wider)).shaped(many, elements, *points, 1)
    plane = product(points)
    columns = found.shaped(images, offsets, elements, plane, depth).moved((0, 1, 4, 2, 3))
    terms = simplify(w.shape[1] * elements)
    weights = Term(node, node.cast(node[1], wider)).shaped(group, features, terms)
    total = node.call("matmul", weights.expr, columns.shaped(images, group, terms, plane).expr)
    y = Term(node, total).shaped(images, w.shape[0], *points)
    if node.has(3):
        y = y + Term(node, node.cast(node[3], wider)).shaped(w.shape[0], *(1,) * rank)
    return node.cast(y.expr, x.dtype)


def _windows(node: Node, kernel: Sequence[int], axis: int, points: Sequence[Dim], of: DType) -> Term:
    """Where along a spatial axis each element of each window is before it is moved: [elements, ..., points, ...]."""
    rank = len(kernel)
    stride, step = per_axis(node, "strides", rank)[axis], per_axis(node, "dilations", rank)[axis]
    element = np.unravel_index(np.arange(prod(kernel)), kernel)[axis] * step - pads_of(node, rank)[axis]
    first = Term(node, node.constant(element.reshape(-1, *(1,) * rank), of))
    own = [d if a == axis else 1 for a, d in enumerate(points)]
    return first + (line(node, points[axis], of) * stride).shaped(1, *own)


def _points(node: Node, kernel: Sequence[int]) -> list[Dim]:
    """How many windows there are along each spatial axis."""
    rank, pads = len(kernel), pads_of(node, len(kernel))
    strides, steps = per_axis(node, "strides", rank), per_axis(node, "dilations", rank)
    return [
        floor_div(simplify(size + (pads[k] + pads[k + rank] - (kernel[k] - 1) * steps[k] - 1)), strides[k]) + 1
        for k, size in enumerate(tensor(node[0]).shape[2:])
    ]


def _fits(node: Node, index: int, shape: Sequence[Dim]) -> None:
    if not same_shape(tensor(node[index]).shape, [simplify(d) for d in shape]):
        name = node.schema.operand(index).name
        raise node.wrong(f"operand {name} is {node[index].type}; the shape {show_shapes([tuple(shape)])} is wanted")


TABLE: dict[str, Rule] = {"DeformConv": deform_conv, "GridSample": grid_sample}

"""GridSample and DeformConv of ONNX as compositions (specs/lower.md, "Import").

Both read images between their elements: at coordinates that the run computes, with weights along each spatial axis. One
gather takes all elements around each point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from assay.lower.frontends.onnx.node import Node, Rule, same_shape, tensor
from assay.lower.frontends.onnx.operators.contraction import pads_of, per_axis
from assay.lower.frontends.onnx.operators.quantization import saturated, wide
from assay.lower.frontends.onnx.operators.resizing import KEYS, cubic
from assay.lower.frontends.onnx.terms import Amount, Term, amount, line
from assay.semantics.dtypes import INT64, DType
from assay.semantics.graph import Expr
from assay.semantics.ops.common import show_shapes
from assay.semantics.ops.sizes import floor_div, product
from assay.semantics.scalar import Dim, provably_equal, simplify

FAR = 2**30
"""Coordinates beyond this are taken for it."""


@dataclass(frozen=True, eq=False)
class Reads:
    """Along one spatial axis, for each point: the places that are read, whether they are inside, and their weights.

    All have the points' shape and one axis more, that of the places.
    """

    places: Term
    inside: Term | None = None
    weights: Term | None = None

    @property
    def count(self) -> Dim:
        """The number of elements that are read along the axis for each point."""
        return self.places.type.shape[-1]


def sampled_elements(
    node: Node, x: Term, axes: Sequence[Reads], points: Sequence[Dim], image: Term | None = None
) -> Term:
    """The elements of x[B, *spatial, C] at the places of all axes: [*points, *places, C]; 0 where one is outside.

    `points` is the shape that those of the axes broadcast to, and `image` which one each point of them reads; without
    that, the first axis of the points is B.
    """
    counts, n = [a.count for a in axes], len(points)
    whole = (*points, *counts)
    if image is None:
        image = line(node, points[0], INT64).shaped(points[0], *(1,) * (n - 1))
    first = image.shaped(*image.type.shape, *(1 for _ in counts))
    index = [first, *(_spread(a.places, k, len(axes)) for k, a in enumerate(axes))]
    tuples = [node.call("expand_dims", t.stretched(*whole).expr, axis=(len(whole),)) for t in index]
    values = Term(node, node.call("gather_nd", x.expr, node.call("concat", *tuples, axis=len(whole))))
    for k, axis in enumerate(axes):
        if axis.inside is not None:
            values = values.chosen(_column(_spread(axis.inside, k, len(axes))), 0)
    return values


def weighed(values: Term, axes: Sequence[Reads]) -> Term:
    """[*points, *places, C] times the weights of all axes, which are given."""
    for k, axis in enumerate(axes):
        assert axis.weights is not None
        values = values * _column(_spread(axis.weights.cast(values.type.dtype), k, len(axes)))
    return values


def summed(values: Term, axes: Sequence[Reads]) -> Term:
    """[*points, *places, C] as the weighted sums [*points, C], one axis of places after another."""
    for k in reversed(range(len(axes))):
        weights, last = axes[k].weights, values.type.ndim - 2
        assert weights is not None
        values = (values * _column(_spread(weights.cast(values.type.dtype), k, k + 1))).sum(last)
    return values


def _spread(t: Term, axis: int, count: int) -> Term:
    """[*points, places] with a place for each of `count` axes, of size 1 but for its own."""
    own = [t.type.shape[-1] if a == axis else 1 for a in range(count)]
    return t.shaped(*t.type.shape[:-1], *own)


def _column(t: Term) -> Term:
    return t.shaped(*t.type.shape, 1)


def whole(t: Term) -> Term:
    """Whole numbers of a float dtype as int64, in which places are counted exactly. NaN becomes 0, and what is far out
    stays far out."""
    return t.chosen(t.equal(t), 0.0).at_least(-float(FAR)).at_most(float(FAR)).cast(INT64)


def channels_last(x: Term) -> Term:
    """x[B, C, *spatial] as [B, *spatial, C]."""
    return x.moved((0, *range(2, x.type.ndim), 1))


def channels_first(x: Term) -> Term:
    """x[B, *points, C] as [B, C, *points]."""
    return x.moved((0, x.type.ndim - 1, *range(1, x.type.ndim - 1)))


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
        length = x.shape[k + 2]
        size = amount(node, length, coordinates.type.dtype)
        at = coordinates.picked(rank - 1 - k, grid.ndim - 1) + 1
        aligned = bool(node.attrs["align_corners"])
        at = at * 0.5 * (size - 1) if aligned else (at * size - 1) * 0.5
        reads.append(_around(at, length, kind, padding, aligned=aligned))
    to = x.dtype
    points = grid.shape[:-1]
    if kind == "nearest":
        found = sampled_elements(node, channels_last(Term(node, node[0])), reads, points)
        return channels_first(found.shaped(*points, x.shape[1])).expr
    found = sampled_elements(node, channels_last(Term(node, node.cast(node[0], wide(to)))), reads, points)
    y = channels_first(summed(found, reads)).expr
    return saturated(node, y, None, to) if to.is_integer else node.cast(y, to)


def _around(at: Term, size: Dim, kind: str, padding: str, *, aligned: bool) -> Reads:
    """What is read at coordinates: places around them, which are brought inside as the padding says."""
    node, of = at.node, at.type.dtype
    last = amount(node, size, of) - 1
    if kind == "nearest":
        return _reads(_column(whole(at.round())), size, padding, aligned=aligned)
    if padding == "border" and kind == "linear":  # elsewhere only the places are moved, as in ONNX Runtime
        at = at.at_least(0.0).at_most(last)
    elif padding == "reflection":
        at = _mirrored(at, last, 0.0 if aligned else 0.5)
    base = at.floor()
    first, count = (0, 2) if kind == "linear" else (-1, 4)
    distance = abs(line(node, count, of) + float(first) - _column(at - base))
    weights = 1 - distance if kind == "linear" else cubic(distance, KEYS)
    places = _column(whole(base)) + (line(node, count, INT64) + first)
    return _reads(places, size, padding, weights, aligned=aligned)


def _reads(places: Term, size: Dim, padding: str, weights: Term | None = None, *, aligned: bool) -> Reads:
    last = amount(places.node, size, INT64) - 1
    if padding == "zeros":
        inside = (places >= 0) & (places <= last)
        return Reads(places.chosen(inside, 0), inside, weights)
    if padding == "reflection":
        places = _mirrored_places(places, last, 0 if aligned else 1)
    return Reads(places.at_least(0).at_most(last), None, weights)


def _mirrored(t: Term, last: Amount, margin: float) -> Term:
    """Reflected at -margin and last + margin until it is between them."""
    reach = last + 2 * margin
    reach = reach.at_least(1.0) if isinstance(reach, Term) else max(reach, 1.0)  # one element has nothing to mirror
    far = abs(t + margin)
    turned = reach - abs(far - (far / (2 * reach)).floor() * (2 * reach) - reach)
    return turned - margin


def _mirrored_places(t: Term, last: Amount, margins: int) -> Term:
    """The same for places; the margins are halves."""
    reach = last + margins
    reach = reach.at_least(1) if isinstance(reach, Term) else max(reach, 1)
    far = abs(t * 2 + margins)
    turned = 2 * reach - abs(far - far.divided(4 * reach) * (4 * reach) - 2 * reach)
    return (turned - margins).divided(2)


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
        _around(
            moves.picked(k, 2) + _windows(node, kernel, k, points, wider),
            x.shape[k + 2], "linear", "zeros", aligned=False,
        )
        for k in range(rank)
    ]  # fmt: skip
    found = summed(sampled_elements(node, channels_last(source), reads, (many, elements, *points)), reads)
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

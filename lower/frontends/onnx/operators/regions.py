"""RoiAlign and MaxRoiPool of ONNX as compositions (specs/lower.md, "Import").

Regions of an image are divided into bins. How many elements a bin reads may depend on the regions: the run measures the
most that one needs, all read as many, and what is too many does not count.
"""

from __future__ import annotations

from dataclasses import dataclass

from assay.lower.frontends.onnx.node import Node, Rule, same_shape, tensor
from assay.lower.frontends.onnx.operators.quantization import wide
from assay.semantics.composed.sampling import (
    FAR,
    Reads,
    between,
    channels_first,
    channels_last,
    sampled_elements,
    weighed,
    whole,
)
from assay.semantics.composed.terms import Amount, Term, amount_of, line
from assay.semantics.dtypes import INT64
from assay.semantics.graph import Expr
from assay.semantics.ops.sizes import product
from assay.semantics.scalar import Dim, neutral, simplify


def _regions(node: Node, columns: int) -> Term:
    """The second operand, a row for each region, in the dtype that is computed in."""
    x, rois = tensor(node[0]), tensor(node[1])
    if x.ndim != 4 or rois.ndim != 2 or not same_shape(rois.shape[1:], (columns,)):
        raise node.wrong(f"X is {x}, rois is {rois}; X[N, C, H, W] and rois[regions, {columns}] are wanted")
    return Term(node, node.cast(node[1], wide(x.dtype)))


def _most(node: Node, counts: Term) -> Dim:
    """The largest of the whole counts, at least 1, as a size."""
    flat = counts.shaped(product(counts.type.shape))
    every = Term(node, node.call("concat", flat.expr, node.constant([1], INT64), axis=0))
    return node.cut_size(every.max(0).shaped(1).expr)


# --- RoiAlign -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Samples:
    """The samples along one axis: how many there are in each region, and, for [regions, bins, samples], which of them
    count; each reads two places."""

    count: Amount
    counted: Term | None
    reads: Reads


def _samples(node: Node, start: Term, length: Term, bins: int, ratio: int, size: Dim) -> _Samples:
    """Samples at the middles of equal parts of each bin, `ratio` of them, or as many as the bin is long."""
    of, (regions,) = start.type.dtype, start.type.shape
    limit = amount_of(node, size, of)
    part = length / bins
    count: Amount = float(ratio)
    most: Dim = ratio
    counted = None
    if not ratio:
        count = part.ceil().at_least(0.0).at_most(float(FAR))
        most = _most(node, whole(count))
        counted = line(node, most, of).shaped(1, 1, most) < count.shaped(regions, 1, 1)
    step = (part / (count.at_least(1.0) if isinstance(count, Term) else count)).shaped(regions, 1, 1)
    bin_ = line(node, bins, of).shaped(1, bins, 1) * part.shaped(regions, 1, 1)
    at = start.shaped(regions, 1, 1) + bin_ + (line(node, most, of).shaped(1, 1, most) + 0.5) * step
    inside = (at >= -1.0) & (at <= limit)
    if counted is not None:
        inside = inside & counted
    at = at.at_least(0.0).chosen(inside, 0.0)
    low = at.floor().at_most(limit - 1)
    rest = (at - low).chosen(low < limit - 1, 0.0).shaped(regions, bins, most, 1)
    last = amount_of(node, size, INT64) - 1
    places = (whole(low).shaped(regions, bins, most, 1) + line(node, 2, INT64)).at_most(last)
    weights = abs(1 - line(node, 2, of) - rest)
    weights = weights.chosen(inside.shaped(regions, bins, most, 1), 0.0)
    line_up = (regions, bins, simplify(most * 2))
    return _Samples(count, counted, Reads(places.shaped(*line_up), None, weights.shaped(*line_up)))


def roi_align(node: Node) -> Expr:
    """The mean, or the maximum, over the samples of each bin.

    In mode max that of the four elements around each sample, each times its weight: so it is in ONNX's cases.
    """
    rois, x = _regions(node, 4), tensor(node[0])
    mode, ratio = node.attrs["mode"], node.attrs["sampling_ratio"]
    height, width = node.attrs["output_height"], node.attrs["output_width"]
    shift = node.attrs.get("coordinate_transformation_mode") or "output_half_pixel"
    if mode not in ("avg", "max") or shift not in ("half_pixel", "output_half_pixel"):
        raise node.wrong(
            f"mode is {mode!r}, coordinate_transformation_mode {shift!r}; avg or max, and half_pixel or"
            " output_half_pixel are wanted"
        )
    if min(height, width) < 1 or ratio < 0:
        raise node.wrong(
            f"output_height {height}, output_width {width}, sampling_ratio {ratio}: 1, 1 and 0 is the least"
        )
    regions, shape = rois.type.shape[0], (height, width)
    if not same_shape(tensor(node[2]).shape, (regions,)):
        raise node.wrong(f"batch_indices is {node[2].type}; a number for each of {regions} regions is wanted")
    axes = []
    for k in range(2):
        start, end = (rois.picked(c, 1) * node.attrs["spatial_scale"] for c in (1 - k, 3 - k))
        if shift == "half_pixel":
            start, end = start - 0.5, end - 0.5
        length = end - start if shift == "half_pixel" else (end - start).at_least(1.0)
        axes.append(_samples(node, start, length, shape[k], ratio, x.shape[k + 2]))
    reads = [_across(a.reads, k) for k, a in enumerate(axes)]
    source = channels_last(Term(node, node.cast(node[0], rois.type.dtype)))
    image = Term(node, node.cast(node[2], INT64)).shaped(regions, 1, 1)
    values = sampled_elements(node, source, reads, (regions, *shape), image)
    y = _mean(between(values, reads), axes) if mode == "avg" else _highest(weighed(values, reads), axes)
    return node.cast(channels_first(y).expr, x.dtype)


def _across(reads: Reads, axis: int) -> Reads:
    """[regions, bins, places] of an axis as [regions, rows, columns, places]."""

    def put(t: Term) -> Term:
        regions, bins, places = t.type.shape
        return t.shaped(regions, *((bins, 1) if axis == 0 else (1, bins)), places)

    weights = None if reads.weights is None else put(reads.weights)
    return Reads(put(reads.places), None if reads.inside is None else put(reads.inside), weights)


def _mean(total: Term, axes: list[_Samples]) -> Term:
    count = axes[0].count * axes[1].count
    if isinstance(count, Term):
        return total / count.at_least(1.0).shaped(*count.type.shape, 1, 1, 1)
    return total / count


def _highest(products: Term, axes: list[_Samples]) -> Term:
    """The maximum over the samples that count; 0 where none does."""
    for k, axis in enumerate(axes):
        if axis.counted is not None:
            regions, _, many = axis.counted.type.shape
            each = axis.counted.shaped(regions, 1, 1, many, 1).stretched(regions, 1, 1, many, 2)
            own = (many * 2, 1) if k == 0 else (1, many * 2)
            products = products.chosen(
                each.shaped(regions, 1, 1, *own, 1), float(neutral("max", products.type.dtype).value)
            )
    most = products.max(3, 4)
    for axis in axes:
        if isinstance(axis.count, Term):
            some = (axis.count > 0.0).shaped(*axis.count.type.shape, 1, 1, 1)
            most = most.chosen(some, 0.0)
    return most


# --- MaxRoiPool ---------------------------------------------------------------------------------------------------


def max_roi_pool(node: Node) -> Expr:
    """The maximum of each bin, whose borders are rounded outwards; 0 for a bin without elements."""
    rois, x = _regions(node, 5), tensor(node[0])
    regions, bins = rois.type.shape[0], node.attrs["pooled_shape"]
    if len(bins) != 2 or min(bins) < 1:
        raise node.wrong(f"pooled_shape is {bins}; two numbers of at least 1 are wanted")
    reads, empty = [], []
    for k in range(2):
        size = amount_of(node, x.shape[k + 2], INT64)
        start, end = (_rounded(rois.picked(c, 1) * node.attrs["spatial_scale"]) for c in (2 - k, 4 - k))
        length, start = (end - start + 1).at_least(1).shaped(regions, 1), start.shaped(regions, 1)
        number = line(node, bins[k], INT64).shaped(1, bins[k])
        first = ((number * length).divided(bins[k]) + start).at_least(0).at_most(size)
        after = (((number + 1) * length + (bins[k] - 1)).divided(bins[k]) + start).at_least(0).at_most(size)
        most = _most(node, after - first)
        places = first.shaped(regions, bins[k], 1) + line(node, most, INT64)
        places = places.at_most(after.shaped(regions, bins[k], 1) - 1).at_least(0)
        reads.append(_across(Reads(places), k))
        empty.append((after <= first).shaped(regions, *((bins[k], 1) if k == 0 else (1, bins[k])), 1))
    image = rois.picked(0, 1).cast(INT64).shaped(regions, 1, 1)
    values = sampled_elements(node, channels_last(Term(node, node[0])), reads, (regions, *bins), image)
    most_ = values.max(3, 4)
    return channels_first(most_.number(0).chosen(empty[0] | empty[1], most_)).expr


def _rounded(t: Term) -> Term:
    """To the nearest whole number, halves away from 0, as int64."""
    return whole((t - 0.5).ceil().chosen(t < 0.0, (t + 0.5).floor()))


TABLE: dict[str, Rule] = {"MaxRoiPool": max_roi_pool, "RoiAlign": roi_align}

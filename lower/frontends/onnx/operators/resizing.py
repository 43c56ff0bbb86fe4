"""Resize and Upsample of ONNX as compositions (specs/lower.md, "Import").

One axis after another: each place of the result has a coordinate in the operand, and is a weighted sum of the elements
around it. Coordinates and weights are computed in float64; by the import where the sizes are numbers.

What ONNX's text leaves open, or says otherwise than its shape inference and its own cases: without `sizes` a result has
floor(size * scale) elements, whatever the region of interest, and `align_corners` and `tf_crop_and_resize` take
size * scale, which need not be whole, for the length of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor
from typing import Any

import numpy as np

from assay.lower.frontends.onnx.node import Node, Rule, tensor
from assay.lower.frontends.onnx.operators.quantization import saturated, wide
from assay.lower.frontends.onnx.terms import folded
from assay.semantics.composed.coordinates import KEYS, NEAR, cubic
from assay.semantics.composed.terms import Amount, Term, amount_of, line
from assay.semantics.dtypes import FLOAT64, INT64
from assay.semantics.graph import Expr
from assay.semantics.ops.sizes import floor_div
from assay.semantics.scalar import Dim, provably_equal, simplify

MOST_PARTS = 1 << 10
"""A scale for an axis whose size is a symbol is a fraction with a denominator of at most this."""
TRANSFORMS = {
    "half_pixel": range(11, 1000),
    "asymmetric": range(11, 1000),
    "pytorch_half_pixel": range(11, 1000),
    "align_corners": range(11, 1000),
    "tf_half_pixel_for_nn": range(11, 13),
    "tf_crop_and_resize": range(11, 1000),
    "half_pixel_symmetric": range(19, 1000),
}
"""How coordinates are found, and in which versions."""
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@dataclass(frozen=True)
class _Way:
    """How coordinates become elements, for all axes."""

    transform: str
    mode: str
    nearest: str = "floor"
    cubic: float = KEYS
    exclude: bool = False
    antialias: bool = False
    beyond: float = 0.0


@dataclass(frozen=True, eq=False)
class _Axis:
    """An axis that is resized. Without a scale, that is count / size."""

    number: int
    size: Dim
    count: Dim
    scale: float | None
    region: tuple[Amount, Amount] = (0.0, 1.0)


# --- coordinates --------------------------------------------------------------------------------------------------


def _coordinates(node: Node, axis: _Axis, transform: str) -> Term:
    """For each place of the result its coordinate in the operand, in float64."""
    place, size, count = line(node, axis.count), amount_of(node, axis.size), amount_of(node, axis.count)
    length = count if axis.scale is None else size * axis.scale

    def back(at: Term) -> Term:
        return at * size / count if axis.scale is None else at / axis.scale

    match transform:
        case "asymmetric":
            return back(place)
        case "tf_half_pixel_for_nn":
            return back(place + 0.5)
        case "align_corners":
            return _unless_alone(length, lambda: place * (size - 1) / (length - 1), place * 0.0)
        case "tf_crop_and_resize":
            start, end = axis.region
            middle = (start + end) * (size - 1) * 0.5
            return _unless_alone(
                length,
                lambda: place * (end - start) * (size - 1) / (length - 1) + start * (size - 1),
                place * 0.0 + middle,
            )
        case "pytorch_half_pixel":
            return _unless_alone(count, lambda: back(place + 0.5) - 0.5, place * 0.0)
        case "half_pixel_symmetric":
            return back(place + 0.5) - 0.5 + size / 2 * (1 - count / length)
        case _:
            return back(place + 0.5) - 0.5


def _unless_alone(length: Amount, many: Callable[[], Term], one: Term) -> Term:
    if isinstance(length, Term):
        return many().chosen(length > 1.0, one)
    return one if length == 1 else many()


def _nearest(at: Term, way: _Way, axis: _Axis) -> Term:
    match way.nearest:
        case "round_prefer_floor":
            return (at - 0.5).ceil()
        case "round_prefer_ceil":
            return (at + 0.5).floor()
        case "ceil":
            return at.ceil()
        case "simple":  # before version 11: up where the result is smaller
            return at.ceil() if axis.scale is not None and axis.scale < 1 else at.floor()
        case _:
            return at.floor()


# --- weights ------------------------------------------------------------------------------------------------------


def _taps(node: Node, at: Term, axis: _Axis, way: _Way) -> tuple[Term, Term]:
    """The places around each coordinate, as whole numbers that may be outside, and their weights: [count, taps].

    With antialias the curve of the weights is stretched over as many elements as become one.
    """
    reach = 1 if way.mode == "linear" else 2
    narrow = _narrow(node, axis) if way.antialias else 1.0
    first = floor(-reach / narrow) + 1
    base = at.floor().shaped(axis.count, 1)
    step = line(node, 2 - 2 * first).shaped(1, 2 - 2 * first) + float(first)
    distance = abs((step - (at.shaped(axis.count, 1) - base)) * narrow)
    weights = (1 - distance).at_least(0.0) if way.mode == "linear" else cubic(distance, way.cubic)
    places = base + step
    if way.exclude:
        inside = (places >= 0.0) & (places <= amount_of(node, axis.size) - 1)
        weights = weights.chosen(inside, 0.0)
    if way.exclude or way.antialias:
        total = weights.sum(1, keep=True)
        weights = weights / total.chosen(total < 0.0, total.chosen(total > 0.0, 1.0))
    return places, weights


def _narrow(node: Node, axis: _Axis) -> float:
    if axis.scale is not None:
        return min(axis.scale, 1.0)
    if isinstance(axis.size, int) and isinstance(axis.count, int):
        return min(axis.count / axis.size, 1.0)
    raise node.unsupported(f"antialias along axis {axis.number} of {node[0].type}; give the symbolic dims values")


# --- one axis -----------------------------------------------------------------------------------------------------


def _resized(node: Node, x: Term, axis: _Axis, way: _Way) -> tuple[Term, Term | None]:
    """`x` resized along an axis, and where its places are beyond the operand, if that matters."""
    at = _coordinates(node, axis, way.transform)
    last = amount_of(node, axis.size) - 1
    beyond = (at < 0.0) | (at > last) if way.transform == "tf_crop_and_resize" else None
    rest = (1,) * (x.type.ndim - 1 - axis.number)
    if beyond is not None:
        beyond = folded(node, beyond).shaped(axis.count, *rest)
    if way.mode == "nearest":
        return _taken(node, x, _nearest(at, way, axis), last, axis.number, either=_either(node, at, way, axis)), beyond
    places, weights = _taps(node, at, axis, way)
    weights = folded(node, weights.cast(x.type.dtype))
    # Keys' curve is steeper than the straight lines
    near = NEAR if way.mode == "linear" else 4 * NEAR
    parts = _taken(node, x, places, last, axis.number, near) * weights.shaped(*weights.type.shape, *rest)
    return parts.sum(axis.number + 1), beyond


def _either(node: Node, at: Term, way: _Way, axis: _Axis) -> tuple[tuple[int, int], ...]:
    """The places of the result whose coordinate lies, but for what float32 rounds, where the rounding to an element
    jumps; and the other element for each. A coordinate that float32 has, and comes to by a scale that it has, is no
    such one.
    """
    size, count = axis.size, axis.count
    if not isinstance(size, int) or not isinstance(count, int) or not size or not node.builder.is_closed(at.expr):
        return ()
    node.require_room(count)
    off = NEAR * (size + 1)
    own, low, high = (node.builder.value(_nearest(t, way, axis).expr) for t in (at, at - off, at + off))
    exact = node.builder.value(at.expr)
    assert own is not None and low is not None and high is not None and exact is not None
    sure = (exact.astype(np.float32) == exact) & (axis.scale is not None or _is_short(size, count, way.transform))
    other = np.clip(np.where(low != own, low, high), 0, size - 1)
    jumps = np.flatnonzero(~sure & (other != np.clip(own, 0, size - 1)))
    return tuple((int(i), int(other[i])) for i in jumps)


def _is_short(size: int, count: int, transform: str) -> bool:
    """Whether float32 has the scale of an axis whose new size is given."""
    if transform == "align_corners":
        size, count = max(size - 1, 1), max(count - 1, 1)
        return any(Fraction(a, b).denominator.bit_count() == 1 for a, b in ((size, count), (count, size)))
    return Fraction(count, size).denominator.bit_count() == 1


def _taken(
    node: Node, x: Term, places: Term, last: Amount, axis: int, near: float = 0.0,
    either: tuple[tuple[int, int], ...] = (),
) -> Term:  # fmt: skip
    """The elements at places along an axis; those outside are at its ends."""
    inside = folded(node, places.at_least(0.0).at_most(last).cast(INT64))
    more: dict[str, Any] = {"near": near} if near else {"either": either} if either else {}
    return Term(node, node.call("take", x.expr, inside.expr, axis=axis, **more))


def _every(node: Node, axes: Sequence[_Axis], way: _Way) -> Expr:
    """The operand resized along the axes that change."""
    of = tensor(node[0]).dtype
    changed = [a for a in axes if not _same(a, way)]
    for a in changed:
        if a.size == 0 and a.count != 0:
            raise node.wrong(f"axis {a.number} of {node[0].type} has no element to make {a.count} of")
    if not changed:
        return node[0]
    x = Term(node, node[0]) if way.mode == "nearest" else Term(node, node.cast(node[0], wide(of)))
    outside: list[Term] = []
    for axis in changed:
        x, beyond = _resized(node, x, axis, way)
        outside += [] if beyond is None else [beyond]
    for beyond in outside:
        x = x.number(way.beyond).chosen(beyond, x)
    if of.is_integer and way.mode != "nearest":
        return saturated(node, x.expr, None, of)
    return node.cast(x.expr, of)


def _same(axis: _Axis, way: _Way) -> bool:
    whole = way.transform != "tf_crop_and_resize" or axis.region == (0.0, 1.0)
    return axis.scale in (None, 1.0) and provably_equal(axis.size, axis.count) and whole


# --- the operators ------------------------------------------------------------------------------------------------


def _scaled(node: Node, number: int, scale: float) -> _Axis:
    """An axis of floor(size * scale) places."""
    size = tensor(node[0]).shape[number]
    if not scale > 0 or scale == float("inf"):
        raise node.wrong(f"the scale of axis {number} is {scale}; a positive number is wanted")
    part = Fraction(scale)
    if not isinstance(size, int) and part.denominator > MOST_PARTS:
        raise node.unsupported(f"the scale {scale} of axis {number} of {node[0].type}; give the symbolic dim a value")
    return _Axis(number, size, floor_div(simplify(size * part.numerator), part.denominator), scale)


def _scales(node: Node, index: int, axes: Sequence[int]) -> list[_Axis]:
    given = [float(s) for s in node.known(index).reshape(-1)]
    if len(given) != len(axes):
        raise node.wrong(f"scales are {given}; {len(axes)} are wanted")
    return [_scaled(node, a, s) for a, s in zip(axes, given, strict=True)]


def _sized(node: Node, axes: Sequence[int]) -> list[_Axis]:
    """Axes of the given sizes, or with a policy of the sizes nearest to them that keep the shape."""
    shape, counts = tensor(node[0]).shape, node.sizes(3)
    if len(counts) != len(axes) or any(isinstance(c, int) and c < 0 for c in counts):
        raise node.wrong(f"sizes are {counts}; {len(axes)} numbers of at least 0 are wanted")
    policy = "stretch"
    if node.attrs.get("keep_aspect_ratio_policy"):
        policy = node.choice("keep_aspect_ratio_policy", "stretch", "not_larger", "not_smaller")
    if policy == "stretch":
        return [_Axis(a, shape[a], c, None) for a, c in zip(axes, counts, strict=True)]
    old = [d for a in axes if isinstance(d := shape[a], int)]
    new = [c for c in counts if isinstance(c, int)]
    if not len(old) == len(new) == len(axes) or not axes:
        raise node.unsupported(f"{policy} with sizes {counts} of {node[0].type}; give the symbolic dims values")
    if 0 in old:
        raise node.wrong(f"{policy} for {node[0].type}, which has no elements")
    choice = min if policy == "not_larger" else max
    scale = choice(c / d for c, d in zip(new, old, strict=True))
    return [_Axis(a, d, floor(scale * d + 0.5), scale) for a, d in zip(axes, old, strict=True)]


def _axes(node: Node) -> tuple[int, ...]:
    rank, given = tensor(node[0]).ndim, node.attrs.get("axes")
    return tuple(range(rank)) if given is None else node.axes(rank, given)


def _given(node: Node, index: int) -> bool:
    """Whether an operand is there; one without elements is as good as none."""
    return node.has(index) and tensor(node[index]).shape != (0,)


def _within(node: Node, axes: list[_Axis]) -> list[_Axis]:
    """The axes with their regions of interest: all starts, then all ends."""
    if not node.has(1) or tensor(node[1]).shape != (2 * len(axes),):
        raise node.wrong(f"tf_crop_and_resize needs an operand roi of {2 * len(axes)} numbers")
    region = folded(node, Term(node, node[1]).cast(FLOAT64))
    n = len(axes)
    known = node.builder.value(region.expr)
    at = [region.picked(i, 0) if known is None else float(known[i]) for i in range(2 * n)]
    return [replace(a, region=(at[i], at[i + n])) for i, a in enumerate(axes)]


def resize(node: Node) -> Expr:
    """Translate Resize of versions 10 and above. Invalid for a mode that the version does not have."""
    if node.version == 10:
        return _before_11(node, _scales(node, 1, _axes(node)))
    attrs = node.attrs
    way = _Way(
        attrs["coordinate_transformation_mode"], attrs["mode"], attrs["nearest_mode"], attrs["cubic_coeff_a"],
        bool(attrs["exclude_outside"]), bool(attrs.get("antialias")), attrs["extrapolation_value"],
    )  # fmt: skip
    if node.version not in TRANSFORMS.get(way.transform, ()):
        known = ", ".join(k for k, versions in TRANSFORMS.items() if node.version in versions)
        raise node.wrong(f"coordinate_transformation_mode is {way.transform!r}; one of {known} is wanted")
    if way.mode not in ("nearest", "linear", "cubic") or way.nearest not in NEAREST:
        raise node.wrong(
            f"mode is {way.mode!r}, nearest_mode is {way.nearest!r}; nearest, linear or cubic, and one of"
            f" {', '.join(NEAREST)} are wanted"
        )
    if way.antialias and way.mode == "nearest":
        raise node.wrong("antialias in mode nearest; linear or cubic is wanted")
    if _given(node, 2) == _given(node, 3):
        raise node.wrong("one of the operands scales and sizes is wanted")
    axes = _axes(node)
    changed = _sized(node, axes) if _given(node, 3) else _scales(node, 2, axes)
    return _every(node, _within(node, changed) if way.transform == "tf_crop_and_resize" else changed, way)


def _before_11(node: Node, axes: list[_Axis]) -> Expr:
    mode = node.choice("mode", "nearest", "bilinear" if node.version == 1 else "linear")
    return _every(node, axes, _Way("asymmetric", "nearest" if mode == "nearest" else "linear", "simple"))


def upsample(node: Node) -> Expr:
    """Translate Upsample of each version: scales are attributes before version 9, an operand from then on."""
    rank = tensor(node[0]).ndim
    if node.version >= 9:
        return _before_11(node, _scales(node, 1, range(rank)))
    if node.version == 1:
        if rank != 4:
            raise node.wrong(f"operand X is {node[0].type}; 4 axes are wanted")
        scales: tuple[float, ...] = (1.0, 1.0, node.attrs["height_scale"], node.attrs["width_scale"])
    else:
        scales = node.attrs["scales"]
    if len(scales) != rank:
        raise node.wrong(f"scales are {scales}; {rank} are wanted")
    return _before_11(node, [_scaled(node, a, s) for a, s in enumerate(scales)])


TABLE: dict[str, Rule] = {"Resize": resize, "Upsample": upsample}

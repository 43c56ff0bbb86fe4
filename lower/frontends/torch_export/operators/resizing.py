"""Resizing of ATen (specs/lower.md, "torch.export").

PyTorch: torch.nn.functional.interpolate. Places of the nearest elements are computed as ATen does it, in float32
(aten/src/ATen/native/UpSample.h); coordinates and weights in float64, and what ATen's own coordinates are off by is in
the bound of `take`, as for ONNX's Resize. Of sizes that are numbers all this is known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from assay.lower.frontends.torch_export.node import AtenNode, AtenRule, aten_type
from assay.lower.frontends.torch_export.operators.composed import AtenMaker
from assay.lower.frontends.torch_export.sizes import ScaledSize
from assay.semantics.composed.coordinates import KEYS, NEAR, cubic
from assay.semantics.composed.maker import Folding
from assay.semantics.composed.terms import Amount, Term, amount_of, line
from assay.semantics.dtypes import FLOAT32, FLOAT64, INT64, DType
from assay.semantics.graph import Expr
from assay.semantics.scalar import Dim, provably_equal

KEYS_OF_AN_ANTIALIASED = -0.5
"""The coefficient of Keys' curve that ATen takes with antialias, as Pillow does."""


@dataclass(frozen=True)
class ResizedAxis:
    """A spatial axis that is resized. Without a factor that is to / size."""

    maker: Folding
    number: int
    size: Dim
    to: Dim
    factor: float | None
    align: bool

    @property
    def keeps(self) -> bool:
        """Whether the axis keeps its size, as far as that is known."""
        return provably_equal(self.size, self.to)

    def line(self, of: DType) -> Term:
        """The places of the result."""
        return line(self.maker, self.to, of)

    def amounts(self, of: DType) -> tuple[Amount, Amount]:
        """Both sizes as numbers."""
        return amount_of(self.maker, self.size, of), amount_of(self.maker, self.to, of)

    def step(self, of: DType) -> Amount:
        """How far apart the places of neighbouring results are, where the edges of the elements meet."""
        if self.factor is not None and self.factor > 0:
            return 1.0 / self.factor
        size, to = self.amounts(of)
        return size / to if isinstance(size, Term) or isinstance(to, Term) or to else 0.0

    @property
    def apart(self) -> Amount:
        """How far apart the coordinates of neighbouring results are: with `align` the ends meet, else the edges of the
        elements do."""
        if not self.align:
            return self.step(FLOAT64)
        size, to = self.amounts(FLOAT64)
        if isinstance(to, Term):
            return ((size - 1) / (to - 1).at_least(1.0)).chosen(to > 1.0, 0.0)
        return (size - 1) / (to - 1) if to > 1 else 0.0

    @property
    def coordinates(self) -> Term:
        """The coordinate of each result, in float64."""
        at = self.line(FLOAT64)
        return at * self.apart if self.align else (at + 0.5) * self.apart - 0.5


def axes(node: AtenNode, rank: int, align: bool = False) -> Iterator[ResizedAxis]:
    """The spatial axes."""
    shape = aten_type(operand(node)).shape[2:]
    maker = Folding(AtenMaker(node))
    if "scale_factors" in node.args and node.has("scale_factors"):
        given: list[float | None] = [float(v) for v in node.get("scale_factors")]
        to = [_scaled(d, f) for d, f in zip(shape, given, strict=True) if f is not None]
    else:
        names = {1: ("scales",), 2: ("scales_h", "scales_w"), 3: ("scales_d", "scales_h", "scales_w")}[rank]
        given, to = [node.args.get(n) for n in names], node.sizes("output_size")
    if len(shape) != rank or len(to) != rank:
        raise node.wrong(f"{operand(node).type} becomes {to}; {rank} spatial axes are wanted")
    for a, (size, new, factor) in enumerate(zip(shape, to, given, strict=True)):
        yield ResizedAxis(maker, a + 2, size, new, factor, align)


def operand(node: AtenNode) -> Expr:
    """The images."""
    return node.tensor("input" if "input" in node.args else "self")


def _scaled(size: Dim, factor: float) -> Dim:
    """size * factor, rounded down."""
    if isinstance(size, int):
        return int(size * factor)
    return ScaledSize(size, Fraction(factor)).floored()


def nearest(rank: int, exact: bool) -> AtenRule:
    """The element at the place below, or at the nearest one."""

    def rule(node: AtenNode) -> Expr:
        x = operand(node)
        for axis in axes(node, rank):
            at = (axis.line(FLOAT32) + (0.5 if exact else 0.0)) * axis.step(FLOAT32)
            last = amount_of(axis.maker, axis.size, INT64) - 1
            x = node.call("take", x, at.floor().cast(INT64).at_most(last).expr, axis=axis.number)
        return x

    return rule


def linear_taps(axis: ResizedAxis) -> tuple[Term, Term]:
    """The elements below and above each coordinate, and their weights: [to, 2]."""
    # along an axis that keeps its size ATen adds each element and no part of itself
    at = axis.line(FLOAT64) if axis.keeps else axis.coordinates.at_least(0.0)
    size, to = axis.amounts(FLOAT64)
    low = at.floor().at_most(size - 1)
    above = low if axis.keeps else (low + 1).at_most(size - 1)
    more = to - size
    if isinstance(more, Term):
        above = low.chosen(more.equal(0.0), above)
    share = (at - low).at_least(0.0).at_most(1.0)
    return side_by_side(low, above), side_by_side(1 - share, share)


def side_by_side(*columns: Term) -> Term:
    """Vectors as columns."""
    maker = columns[0].node
    return Term(maker, maker.call("concat", *(c.shaped(c.type.shape[0], 1).expr for c in columns), axis=1))


def cubic_taps(axis: ResizedAxis) -> tuple[Term, Term]:
    """Two elements below and two above each coordinate, those at the ends for those beyond, and their weights."""
    at, (size, _) = axis.coordinates, axis.amounts(FLOAT64)
    base = at.floor().at_most(size - 1)
    share = (at - base).at_least(0.0).at_most(1.0).shaped(axis.to, 1)
    step = line(axis.maker, 4, FLOAT64) - 1
    places = (base.shaped(axis.to, 1) + step).at_least(0.0).at_most(size - 1)
    return places, cubic(abs(share - step), KEYS)


def interpolated(rank: int, taps: Callable[[ResizedAxis], tuple[Term, Term]], near: float) -> AtenRule:
    """The weighted sum of the elements around each coordinate, one axis after another."""

    def rule(node: AtenNode) -> Expr:
        of = aten_type(operand(node)).dtype
        if (
            not of.is_float or of.bits < 32 and (rank, taps) != (2, linear_taps)
        ):  # else ATen rounds each weight and each sum
            raise node.unsupported(f"weights in {of}")
        x = node.work(operand(node))
        for axis in axes(node, rank, node.flag("align_corners")):
            places, weights = taps(axis)
            parts = node.call("take", x, places.cast(INT64).expr, axis=axis.number, near=0.0 if axis.keeps else near)
            x = weighed_sum(node, parts, weights, axis)
        return node.cast(x, of)

    return rule


def weighed_sum(node: AtenNode, parts: Expr, weights: Term, axis: ResizedAxis, inside: Term | None = None) -> Expr:
    """The sum of the elements of a resized axis, which are along the axis behind it, by their weights [to, taps]; some
    may take no part."""
    of = aten_type(parts)

    def spread(t: Term) -> Term:
        return t.shaped(*t.type.shape, *(1,) * (of.ndim - axis.number - 2))

    made = node.call("multiply", parts, spread(weights.cast(of.dtype)).expr)
    if inside is not None:
        made = node.call("where", spread(inside).expr, made, node.constant(0, of.dtype))
    return node.call("sum", made, axis=(axis.number + 1,), keepdims=False)


def antialiased(taps: int, filtered: Callable[[Term], Term], near: float) -> AtenRule:
    """The weighted mean of the elements near each coordinate; of more where an image becomes smaller, by a curve that
    is as much wider (aten/src/ATen/native/cpu/UpSampleKernel.cpp). Two axes, whose sizes are numbers."""

    def rule(node: AtenNode) -> Expr:
        x = operand(node)
        if aten_type(x).dtype not in (FLOAT32, FLOAT64):
            raise node.unsupported(f"weights in {aten_type(x).dtype}")
        for axis in axes(node, 2, node.flag("align_corners")):
            step, size = axis.apart, axis.size
            if isinstance(step, Term) or not isinstance(size, int):
                raise node.unsupported(f"antialias along an axis of size {size}")
            wide = max(step, 1.0)
            middle = (axis.line(FLOAT64) + 0.5) * step
            reach = taps / 2 * wide
            first = (middle - reach + 0.5).floor().at_least(0.0).shaped(axis.to, 1)
            end = (middle + reach + 0.5).floor().at_most(size).shaped(axis.to, 1)
            places = first + line(axis.maker, ceil(reach) * 2 + 1, FLOAT64)
            weights = filtered(abs((places - middle.shaped(axis.to, 1) + 0.5) * (1.0 / wide)))
            inside = places < end
            weights = weights.chosen(inside, 0.0)
            weights = weights / weights.sum(1, keep=True)
            at = places.at_most(size - 1).cast(INT64).expr
            parts = node.call("take", x, at, axis=axis.number, near=near)
            x = weighed_sum(node, parts, weights, axis, inside)
        return x

    return rule


TABLE: dict[str, AtenRule] = {
    **{f"upsample_nearest{r}d": nearest(r, exact=False) for r in (1, 2, 3)},
    **{
        f"upsample_{n}{r}d": interpolated(r, linear_taps, NEAR)
        for r, n in enumerate(("linear", "bilinear", "trilinear"), 1)
    },
    "upsample_bicubic2d": interpolated(2, cubic_taps, 4 * NEAR),  # Keys' curve is steeper than the straight lines
    **{f"_upsample_nearest_exact{r}d": nearest(r, exact=True) for r in (1, 2, 3)},
    "_upsample_bilinear2d_aa": antialiased(2, lambda d: (1 - d).at_least(0.0), NEAR),
    "_upsample_bicubic2d_aa": antialiased(4, lambda d: cubic(d, KEYS_OF_AN_ANTIALIASED), 4 * NEAR),
}

"""Elements of images that are read between their places (specs/semantics.md, "Text").

At coordinates that the run computes, with weights along each spatial axis. One gather takes all elements around each
point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assay.semantics.composed.coordinates import KEYS, cubic
from assay.semantics.composed.maker import Maker
from assay.semantics.composed.terms import Amount, Term, amount_of, line
from assay.semantics.dtypes import FLOAT32, INT64
from assay.semantics.scalar import Dim

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
    node: Maker, x: Term, axes: Sequence[Reads], points: Sequence[Dim], image: Term | None = None
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


def between(values: Term, axes: Sequence[Reads]) -> Term:
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
    t = t.cast(FLOAT32) if t.type.dtype.bits < 32 else t
    return t.chosen(t.equal(t), 0.0).at_least(-float(FAR)).at_most(float(FAR)).cast(INT64)


def channels_last(x: Term) -> Term:
    """x[B, C, *spatial] as [B, *spatial, C]."""
    return x.moved((0, *range(2, x.type.ndim), 1))


def channels_first(x: Term) -> Term:
    """x[B, *points, C] as [B, C, *points]."""
    return x.moved((0, x.type.ndim - 1, *range(1, x.type.ndim - 1)))


def unscaled(at: Term, size: Dim, *, aligned: bool) -> Term:
    """Coordinates from -1 to 1 along an axis as places: of the outer edges of its elements, or with `aligned` of the
    middles of the first and the last."""
    length = amount_of(at.node, size, at.type.dtype)
    at = at + 1
    return at * 0.5 * (length - 1) if aligned else (at * length - 1) * 0.5


def around(at: Term, size: Dim, kind: str, padding: str, *, aligned: bool) -> Reads:
    """What is read at coordinates: places around them, which are brought inside as the padding says: `zeros`, `border`
    or `reflection`; at the ends of the axis, or with `aligned` at its last elements."""
    node, of = at.node, at.type.dtype
    if kind == "nearest":
        return _reads(_column(whole(at.round())), size, padding, aligned=aligned)
    base = at.floor()
    first, count = (0, 2) if kind == "linear" else (-1, 4)
    distance = abs(line(node, count, of) + float(first) - _column(at - base))
    weights = 1 - distance if kind == "linear" else cubic(distance, KEYS)
    places = _column(whole(base)) + (line(node, count, INT64) + first)
    return _reads(places, size, padding, weights, aligned=aligned)


def _reads(places: Term, size: Dim, padding: str, weights: Term | None = None, *, aligned: bool) -> Reads:
    last = amount_of(places.node, size, INT64) - 1
    if padding == "zeros":
        inside = (places >= 0) & (places <= last)
        return Reads(places.chosen(inside, 0), inside, weights)
    if padding == "reflection":
        places = _mirrored_places(places, last, 0 if aligned else 1)
    return Reads(places.at_least(0).at_most(last), None, weights)


def mirrored(t: Term, last: Amount, margin: float) -> Term:
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

"""Rules for functions that only place elements, and for conversions (specs/semantics.md, "Numbers")."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from assay.semantics.bounding.core import Bounded, coerce, implements, moved, plain_if_exact
from assay.semantics.bounding.logic import hull
from assay.semantics.bounding.model import has_infinity, has_sign
from assay.semantics.bounding.rounding import rounding_bound
from assay.semantics.dtypes import BOOL, FLOAT64, DType
from assay.semantics.errors import Unpredictable
from assay.semantics.scalar import operation
from assay.semantics.scalar.arithmetic import no_such_number


def _one(function: Any) -> None:
    def rule(x: Bounded, *args: Any, **kwargs: Any) -> Bounded:
        return moved(x, lambda a: function(a, *args, **kwargs))

    implements(function)(rule)


_ONE: tuple[Any, ...] = (
    np.reshape, np.ravel, np.transpose, np.moveaxis, np.swapaxes, np.expand_dims, np.squeeze, np.broadcast_to,
    np.flip, np.roll, np.rot90, np.repeat, np.tile, np.copy, np.diagonal, np.atleast_1d, np.take_along_axis,
    np.lib.stride_tricks.sliding_window_view,
)  # fmt: skip
for _f in _ONE:
    _one(_f)


def _many(function: Any) -> None:
    def rule(parts: Sequence[Any], *args: Any, **kwargs: Any) -> Bounded:
        xs = coerce(*parts)
        value = function([x.value for x in xs], *args, **kwargs)
        if all(x.is_exact for x in xs):
            return Bounded(value, 0, xs[0].of)
        made = Bounded(value, function([x.radius for x in xs], *args, **kwargs), xs[0].of, max(x.terms for x in xs))
        made.narrow = xs[0].narrow if len({x.narrow for x in xs}) == 1 else None
        return made

    implements(function)(rule)


_many(np.concatenate)
_many(np.stack)


def _pieces(function: Any) -> None:
    def rule(x: Bounded, *args: Any, **kwargs: Any) -> list[Bounded]:
        values = function(x.raw, *args, **kwargs)
        radii = [0] * len(values) if x.is_exact else function(x.radius, *args, **kwargs)
        made = [Bounded(v, r, x.of) for v, r in zip(values, radii, strict=True)]
        for part in made:
            part.narrow = x.narrow
        return made

    implements(function)(rule)


_pieces(np.split)
_pieces(np.array_split)


OPEN_PLACES = 64
"""Of so many elements an index may leave open which is taken."""


@implements(np.take)
def take(x: Bounded, indices: Any, axis: int | None = None, **kwargs: Any) -> Bounded:
    """As `np.take`, of indices that are not negative; where these are intervals, what holds all elements that may be
    taken: those that there are, for an index outside ends a run. Unpredictable (bounds.C4) where they are too many."""
    if not isinstance(indices, Bounded):
        return moved(x, lambda a: np.take(a, indices, axis=axis, **kwargs))
    low, high = indices.interval()
    most = float(np.max(high - low, initial=0.0))
    if not most < OPEN_PLACES:
        raise Unpredictable("the bounds leave open which elements are taken", label="bounds.C4")
    end = (x.size if axis is None else x.shape[axis]) - 1
    first, last = (np.clip(e, 0, end).astype(np.int64) for e in (np.ceil(low), np.floor(high)))
    found = take(x, first, axis)
    for k in range(1, int(most) + 1):
        beside = take(x, np.minimum(first + k, last), axis)
        found = hull(found, beside, np.ones(found.shape, bool))
    return found


def taken(x: Any, indices: Any, axis: int | None = None) -> Any:
    """`np.take`, whichever of the two are intervals."""
    if isinstance(indices, Bounded) and not isinstance(x, Bounded):
        x = Bounded.exact(x)
    return np.take(x, indices, axis=axis)


@implements(np.pad)
def pad(x: Bounded, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Bounded:
    """As `np.pad`; what is filled in with a constant is exact."""
    value = np.pad(x.raw if x.raw.dtype == x.dtype else x.value, pad_width, mode, **kwargs)
    if x.is_exact:
        return Bounded(value, 0, x.of)
    more = {"constant_values": 0} if mode == "constant" else kwargs
    return Bounded(value, np.pad(x.radius, pad_width, mode, **more), x.of)


@implements(np.shape)
def shape(x: Bounded) -> tuple[int, ...]:
    """As `np.shape`."""
    return x.shape


@implements(np.ndim)
def ndim(x: Bounded) -> int:
    """As `np.ndim`."""
    return x.ndim


@implements(np.size)
def size(x: Bounded, axis: int | None = None) -> int:
    """As `np.size`: of all elements, or along `axis`."""
    return x.size if axis is None else x.shape[axis]


@implements(np.full_like)
def full_like(x: Bounded, fill_value: Any, dtype: Any = None, shape: Any = None, **kwargs: Any) -> Any:
    """As `np.full_like`: exact intervals in the dtype of `x`, a plain array in another dtype."""
    like = np.dtype(dtype or x.dtype)
    out = np.full(x.shape if shape is None else shape, fill_value, like)
    return Bounded.exact(out) if like == x.dtype else out


@implements(np.zeros_like, np.empty_like)
def zeros_like(x: Bounded, dtype: Any = None, **kwargs: Any) -> Any:
    """As `np.zeros_like`, and so is what `np.empty_like` gives."""
    return full_like(x, 0, dtype, **kwargs)


@implements(np.ones_like)
def ones_like(x: Bounded, dtype: Any = None, **kwargs: Any) -> Any:
    """As `np.ones_like`."""
    return full_like(x, 1, dtype, **kwargs)


# --- conversions -------------------------------------------------------------------------------------------------


@implements("astype")
def astype(x: Bounded, to: DType) -> Any:
    """Rule M5. To a wider float exact, to a narrower one rounded; to an integer truncated; to bool `x != 0`."""
    if to is x.of:
        return x
    if to is BOOL:
        zero = np.zeros((), x.dtype)
        return x != zero
    if to.is_integer:
        return to_integer(x, to)
    if holds(to, x.of):
        made = Bounded(x.raw, 0 if x.is_exact else x.radius, to)
        made.narrow = (x.narrow or x.of) if x.of.is_float else None
        return made
    value = x.value.copy()
    none = float(np.asarray(np.nan).astype(to.numpy))
    if none == none:  # float4_e2m1fn has no NaN: it becomes -0 (M5.1)
        value = np.where(np.isnan(value), none, value)
    result = rounding_bound(to, value, 0.0 if x.is_exact else x.radius, (x,), lambda: x.interval())
    whole = has_sign(to) and (x.of.is_float or x.of.bits <= 32)  # else the centre is rounded already
    return _between_neighbours(result, x) if whole else result


def _between_neighbours(result: Bounded, x: Bounded) -> Bounded:
    """Of a number that is known: itself, or one of the two numbers of the dtype around it. Every rounding gives one of
    them, two roundings one after another too (rule M9.6)."""
    of, value = result.of, x.value
    known = (x.radius == 0) & (np.abs(value) <= float(of.max))
    with np.errstate(all="ignore"):
        near = value.astype(of.numpy)
        wide = near.astype(np.float64)
        towards = np.where(wide < value, float(of.max), -float(of.max)).astype(of.numpy)
        other = np.nextafter(near, towards).astype(np.float64)
        far = np.where(wide == value, 0.0, np.maximum(np.abs(wide - value), np.abs(other - value)))
    return result.cut(np.where(known, value, result.value), np.where(known, far, result.radius))


def holds(to: DType, of: DType) -> bool:
    """Whether every value of `of` is one of `to`."""
    if of is BOOL:
        return has_sign(to)
    if not of.is_float:
        return 2.0**of.bits * to.unit_roundoff <= 1 and float(of.max) <= float(to.max)
    if not has_sign(of) or not has_sign(to):
        return to is FLOAT64
    return (
        to.unit_roundoff <= of.unit_roundoff
        and to.smallest_subnormal <= of.smallest_subnormal
        and float(to.max) >= float(of.max)
        and (has_infinity(to) or not has_infinity(of))
    )


def to_integer(x: Bounded, to: DType, trapping: bool = True) -> Any:
    """Truncated; a float traps, if asked to, where no allowed value is in range; what may trap or wrap may be
    anything."""
    low, high = map(np.trunc, x.interval())
    least, most = float(to.min), float(to.max)
    known = ~np.isinf(x.radius)
    if trapping and x.of.is_float and bool((known & (np.isnan(x.value) | (high < least) | (low >= most + 1.0))).any()):
        raise no_such_number(x.of, to)
    inside = known & (low >= least) & (high < most + 1.0)
    if x.is_exact and bool(inside.all()):
        return x.raw.astype(np.float64).astype(np.int64 if to.kind == "int" else np.uint64).astype(to.numpy)
    middle = np.where(x.radius == 0, low, low / 2 + high / 2)
    half = (high / 2 - low / 2) * np.where(np.maximum(-low, high) > 2.0**51, 1 + 2.0**-50, 1.0)
    radius = np.where(inside, np.where(x.radius == 0, 0.0, half), np.inf)
    return plain_if_exact(Bounded(np.where(inside, middle, 0.0), radius, to))


def whole_division(name: str, a: Any, b: Any, trapping: bool = True) -> Any:
    """The integer operation `name` of the scalar table; anything where an operand is not decided, or where it has no
    value and need not trap."""
    a, b = coerce(a, b)
    decided = np.asarray((a.radius == 0) & (b.radius == 0))
    if not trapping:
        decided = decided & ~np.asarray((b.value == 0) & (b.radius == 0))
    x, y = np.broadcast_arrays(a.raw.astype(a.dtype), b.raw.astype(b.dtype))
    value = operation(name).meaning(x, np.where(decided, y, y.dtype.type(1)))
    return plain_if_exact(Bounded(np.asarray(value), np.where(decided, 0.0, np.inf), a.of))


def steps(x: Any, axis: int) -> Any:
    """How far each element is from the farther of its two neighbours along an axis, as numbers."""
    value, radius = np.moveaxis(x.value, axis, 0), np.moveaxis(x.radius, axis, 0)
    apart = np.zeros(value.shape)
    if len(value) > 1:
        with np.errstate(all="ignore"):
            step = np.abs(value[1:] - value[:-1]) + radius[1:] + radius[:-1]
        step = np.nan_to_num(step, nan=np.inf, posinf=np.inf)
        apart[1:], apart[:-1] = step, np.maximum(apart[:-1], step)
        apart[1:-1] = np.maximum(step[1:], step[:-1])
    return np.moveaxis(apart, 0, axis)


def off_place(x: Bounded, apart: Any, part: float) -> Bounded:
    """`x`, each number of which may be off by a part of how far its neighbours are apart from it (rule M9.10)."""
    more = np.where(np.isfinite(x.value), part * apart, 0.0)
    return Bounded(x.value, x.radius + more, x.of)

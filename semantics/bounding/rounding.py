"""From a centre, and how far the operands let it be off, to the interval of correct results (specs/semantics.md,
"Numbers").

One place decides what rounding, underflow and overflow do; every arithmetic rule ends here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from assay.semantics.bounding.core import Array, Bounded, Floats
from assay.semantics.bounding.model import U64, has_infinity, has_sign, overflow_at, unit
from assay.semantics.dtypes import FLOAT64, DType

Corners = Callable[[], Sequence[Any]]
"""The operation at the ends of its operands: the least and the greatest of these bound the exact results."""


def rounding_bound(
    of: DType,
    value: Any,
    spread: Any,
    operands: Sequence[Bounded],
    corners: Corners,
    *,
    relative: Any = None,
    underflows: bool = True,
    zero: Callable[[], Any] = lambda: False,
) -> Bounded:
    """The interval around `value`: exact results are within `spread` of it, and are then rounded once to `of`.

    `relative` is the error of that rounding (default: `unit(of)`). `underflows` is false where a result below the
    normal numbers is exact, as in addition. `zero` says where a float64 result of 0 is exactly 0 and no underflow.
    Elements that may overflow, or of which an operand is no finite interval, are decided by `corners`.
    """
    value = np.asarray(value)
    if not of.is_float:
        return _whole(of, value, spread)
    factor = unit(of) if relative is None else relative
    reach: Floats = np.asarray(np.abs(value))
    reach += spread
    # below this the interval stays within the type's finite numbers whatever the rounding
    limit = float(of.max) / (1 + 4 * np.max(factor, initial=0.0))
    fits = has_sign(of) and bool(reach.max(initial=0.0) <= limit)
    radius: Floats = np.asarray(reach * factor)
    if underflows:
        low = reach < of.smallest_normal
        if low.any():
            low &= ~np.asarray(zero()) if of is FLOAT64 else reach > 0
            radius += low * (2 * of.smallest_subnormal)
    rounding = radius.copy() if any(x.follows_errors for x in operands) else None
    radius += spread
    if not fits:
        bad = ~(reach <= limit) | (not has_sign(of))
        _repair(of, value, radius, bad, operands, corners, np.broadcast_to(factor, value.shape)[bad], relative is None)
        if rounding is not None:
            rounding[bad] = np.inf
    made = Bounded(value, radius, of)
    made.rounding = rounding
    return made


def _repair(
    of: DType,
    value: Array,
    radius: Floats,
    bad: Array,
    operands: Sequence[Bounded],
    corners: Corners,
    factor: Any,
    once: bool,
) -> None:
    """Decide the elements `bad`: certain infinity or NaN, a finite interval near the largest number, or anything."""
    ends = np.stack([np.broadcast_to(c, value.shape)[bad] for c in corners()])
    low, high = ends.min(axis=0), ends.max(axis=0)
    top = float(of.max)
    safe, sure = overflow_at(of)
    # one correct rounding overflows from halfway on; an elementary function's error counts in full
    early_low, early_high = (0.0, 0.0) if once else (factor * np.abs(low), factor * np.abs(high))
    finite = (low - early_low > -safe) & (high + early_high < safe)
    sure_high = np.isposinf(low) | (low - early_low >= sure)
    sure_low = np.isneginf(high) | (high + early_high <= -sure)
    infinite = np.select([sure_high, sure_low], [np.inf, -np.inf], np.nan)
    low_in = np.clip(low - factor * np.abs(low), -top, top)
    high_in = np.clip(high + factor * np.abs(high), -top, top)
    centre = low_in / 2 + high_in / 2
    half = (high_in / 2 - low_in / 2) * (1 + 4 * U64) + 4 * U64 * np.abs(centre) + 2 * of.smallest_subnormal
    unknown = np.zeros(value.shape, bool)
    for x in operands:
        unknown |= np.isinf(x.radius)
    # low and high are NaN where any corner is; only where all are is the result NaN for certain
    certain = ~np.isnan(infinite) | np.isnan(ends).all(axis=0)
    certain &= has_infinity(of) | np.isnan(infinite)
    unknown = unknown[bad] | ~(finite | certain) | (not has_sign(of))
    value[bad] = np.where(
        unknown, np.nan_to_num(value[bad], posinf=top, neginf=-top), np.where(finite, centre, infinite)
    )
    radius[bad] = np.where(unknown, np.inf, np.where(finite, half, 0.0))


def _whole(of: DType, value: Array, spread: Any) -> Bounded:
    """Integers do not round; one that may wrap may be anything (rule M9.5)."""
    reach = np.abs(value) + spread
    radius = spread + np.where(reach > 2.0**52, reach * (8 * U64), 0.0)
    inside = (value - radius >= float(of.min)) & (value + radius <= float(of.max))
    return Bounded(value, np.where(inside, radius, np.inf), of)


def not_below(x: Bounded, floor: Any, where: Any = True) -> Bounded:
    """`x` of which, where said, no correct result is below `floor`: that part of an interval is cut off."""
    below = (x.value - floor < x.radius) & where
    if not below.any() or not (below := below & np.isfinite(x.radius)).any():
        return x
    high = x.value + x.radius
    half = (high - floor) * (0.5 * (1 + 8 * U64))
    cut = below & (half >= 0) & np.isfinite(half)
    # a floor of 0 is met exactly
    radius = half + np.abs(floor) * (4 * U64)
    return x.cut(np.where(cut, floor + half, x.value), np.where(cut, radius, x.radius))


def not_below_zero(x: Bounded, where: Any = True) -> Bounded:
    """`x` of which no correct result is negative."""
    return not_below(x, 0.0, where)

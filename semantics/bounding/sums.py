"""Rules for reductions and contractions (specs/semantics.md, "Numbers").

A sum of K products, in any order and with any contraction, is within parts of the sum of magnitudes and of its own
(`summation`). These include what the operands may be off. One matrix product gives the centres and one or two give the
radii.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from assay.semantics.bounding.core import Array, Axis, Bounded, Floats, coerce, implements
from assay.semantics.bounding.logic import certain_and_possible, truth
from assay.semantics.bounding.model import FOLDS, SLACK, TAKEN_UP, U64, gamma, gammas, has_infinity, has_sign, summation
from assay.semantics.bounding.pointwise import divide, mirrored, rounded_literal
from assay.semantics.bounding.rounding import not_below_zero
from assay.semantics.dtypes import FLOAT64, DType

BLOCK = 1 << 22
"""Elements of a matrix that are converted to float64 at a time."""


def _finished(
    of: DType,
    value: Array,
    radius: Floats,
    terms: int,
    factor: float,
    special: Callable[[Array], tuple[Array, Array]],
    exact: bool = True,
) -> Bounded:
    """Underflow of each term, overflow of a partial sum, and elements with operands that are no finite intervals.

    `radius` is at least `factor` times the sum of magnitudes, of operands that are `exact` no more than twice that.
    `special(where)` gives, for such elements, the sum of their finite magnitudes and whether something else than
    `value` may result.
    """
    value, radius = np.asarray(value), np.asarray(radius)
    if not of.is_float:
        # what may wrap, or is too large for float64 to be exact
        inside = (value - radius >= max(float(of.min), -(2.0**52))) & (value + radius <= min(float(of.max), 2.0**52))
        return Bounded(value, np.where(inside, radius, np.inf), of)
    low = radius < 2 * factor * of.smallest_normal * terms
    if terms and not exact:
        low = np.ones(low.shape, bool)
    if low.any():
        low &= (radius > 0) | (of is FLOAT64)
        radius = radius + low * (2 * terms * of.smallest_subnormal)
    if not has_sign(of):
        return Bounded(value, np.inf, of)
    limit = float(of.max) / (1 + 4 * factor)
    bad = ~(radius / factor <= limit)
    if bad.any():
        magnitude, open_ = special(bad)
        fits = magnitude <= limit
        like = np.isfinite(value[bad]) | has_infinity(of) | np.isnan(value[bad])
        # NaN comes of a NaN, or of infinities: whatever else overflows, it stays
        fits |= np.isnan(value[bad]) & (of is not FLOAT64)
        known = fits & ~open_ & like
        radius = np.array(radius)  # of no axes too
        radius[bad] = np.where(known, np.where(np.isfinite(value[bad]), radius[bad], 0.0), np.inf)
    return Bounded(value, radius, of)


# --- sums --------------------------------------------------------------------------------------------------------


def _axes(x: Bounded, axis: Axis) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(x.ndim))
    return tuple(a % x.ndim for a in ((axis,) if isinstance(axis, (int, np.integer)) else axis))


def _sum(x: Bounded, axes: tuple[int, ...], keepdims: bool, slack: int) -> Bounded:
    terms = prod(x.shape[a] for a in axes)
    v = x.value
    value = np.sum(v, axis=axes, keepdims=keepdims)
    if terms <= 1:
        radius = np.sum(x.radius, axis=axes, keepdims=keepdims)
        out = Bounded(value, 0 if x.is_exact else radius, x.of)
        out.rounding = 0.0
        return out
    factor, of_sum = summation(terms, TAKEN_UP // 2, slack - 1, x.of) if x.of.is_float else (0.0, 0.0)
    size = np.abs(v) if x.is_exact else np.abs(v) + x.radius
    rounding = factor * np.sum(size, axis=axes, keepdims=keepdims)
    off = 0.0 if x.is_exact else np.sum(x.radius, axis=axes, keepdims=keepdims)
    if of_sum:
        rounding = rounding + of_sum * (np.abs(value) + off)
    radius = np.asarray(rounding + off)

    def special(bad: Array) -> tuple[Array, Array]:
        total = np.sum(np.where(np.isfinite(size), size, 0.0), axis=axes, keepdims=keepdims)
        return np.asarray(total)[bad], np.asarray(np.isinf(x.radius).any(axis=axes, keepdims=keepdims))[bad]

    # a term below the normal numbers is added without error, so nothing underflows
    out = _finished(x.of, value, radius, 0, factor, special)
    if (out.radius > out.value).any():
        out = not_below_zero(out, (v >= x.radius).all(axis=axes, keepdims=keepdims))
    if x.of.is_float:
        out.terms = terms + slack  # a sum and one more term is a sum (rule M9.8)
    if x.follows_errors:
        out.rounding = rounding
    return out


@implements(np.sum)
def total(x: Bounded, axis: Axis = None, dtype: Any = None, keepdims: bool = False, **more: Any) -> Bounded:
    """The sum of elements, added in any order; a single term is exact."""
    return _sum(x, _axes(x, axis), bool(keepdims), 2)


def running_sums(x: Bounded, axis: int, exclusive: bool) -> Bounded | None:
    """The sums of the elements before each place of an axis, each in any order, all at once; None where one of them may
    not be finite. They may take up more terms (rule M9.8)."""
    count = x.shape[axis]
    value, radius = np.moveaxis(x.value, axis, -1), np.moveaxis(x.radius, axis, -1)
    size = np.cumsum(np.abs(value) + radius, axis=-1)
    if not count or not has_sign(x.of) or not size.max(initial=0.0) <= float(x.of.max) / 4:
        return None
    factors = gammas(np.arange(1, count + 1) + 2, x.of)
    factors[0] = 0.0
    made = [np.cumsum(value, axis=-1), factors * size + np.cumsum(radius, axis=-1)]
    if exclusive:
        made = [np.concatenate([np.zeros_like(a[..., :1]), a[..., :-1]], axis=-1) for a in made]
    value, radius = (np.moveaxis(a, -1, axis) for a in made)
    return Bounded(value, radius, x.of, count)


@implements(np.mean)
def mean(x: Bounded, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """The sum over the count, or the sum times a rounded 1 / count. Of the mean of nothing ONNX says that it is
    undefined."""
    axes = _axes(x, axis)
    count = prod(x.shape[a] for a in axes)
    if count == 0:
        nothing = np.full(np.sum(x.value, axis=axes, keepdims=bool(keepdims)).shape, np.nan)
        return Bounded(nothing, np.full(nothing.shape, np.inf), x.of)
    return divide(_sum(x, axes, bool(keepdims), 4), rounded_literal(x, count))


@implements(np.prod)
def product(x: Bounded, axis: Axis = None, dtype: Any = None, keepdims: bool = False, **more: Any) -> Bounded:
    """The product of elements in any order. A partial product may overflow or underflow where the whole does not."""
    axes = _axes(x, axis)
    terms = prod(x.shape[a] for a in axes)
    v, of = x.value, x.of
    value = np.asarray(np.prod(v, axis=axes, keepdims=keepdims))
    if terms <= 1 and x.is_exact:
        return Bounded(value, 0, of)
    size = np.abs(v) + x.radius
    reach = np.asarray(np.prod(size, axis=axes, keepdims=keepdims))
    spread = reach - np.abs(value)
    if not of.is_float:
        return Bounded(value, np.where(reach <= min(float(of.max), 2.0**52), spread, np.inf), of)
    finite = np.isfinite(size)
    plain = np.where(finite, size, 1.0)
    high = np.asarray(np.prod(np.maximum(plain, 1.0), axis=axes, keepdims=keepdims))
    low = np.asarray(np.prod(np.minimum(plain, 1.0), axis=axes, keepdims=keepdims, where=plain > 0))
    factor = gamma(terms, of)
    dips = low < of.smallest_normal
    radius = spread + factor * reach + dips * (terms * 2 * of.smallest_subnormal * high)
    # an infinity stays one if nothing can become 0; NaN is NaN
    all_finite = finite.all(axis=axes, keepdims=keepdims)
    nonzero = (np.abs(v) > x.radius).all(axis=axes, keepdims=keepdims, where=finite) & ~dips
    special = (nonzero & has_infinity(of)) | np.isnan(value)
    known = (high <= float(of.max) / (1 + 4 * factor)) & (all_finite | special) & has_sign(of)
    known &= ~np.isinf(x.radius).any(axis=axes, keepdims=keepdims)
    radius = np.where(known, np.where(all_finite, radius, 0.0), np.inf)
    return Bounded(np.where(known, value, np.nan_to_num(value)), radius, of)


# --- extremes: exact ---------------------------------------------------------------------------------------------


@implements(np.max)
def largest(x: Bounded, axis: Axis = None, keepdims: bool = False, **more: Any) -> Bounded:
    """The largest element; exact. NaN if one is NaN."""
    axes = _axes(x, axis)
    value = np.asarray(np.max(x.value, axis=axes, keepdims=keepdims, **more))
    if x.is_exact:
        # NumPy leaves the sign of a zero open where there are both
        return Bounded(value, np.zeros(value.shape) if (value == 0).any() else 0, x.of)
    low, high = (np.asarray(np.max(e, axis=axes, keepdims=keepdims, **more)) for e in x.interval())
    off = np.maximum(high - value, value - low)
    off = np.where((low == high) | np.isnan(off), 0.0, off * (1 + 4 * U64) + 4 * U64 * np.abs(value))
    loose = np.isinf(x.radius).any(axis=axes, keepdims=keepdims)
    return Bounded(value, np.where(loose, np.inf, off), x.of)


@implements(np.min)
def least(x: Bounded, axis: Axis = None, keepdims: bool = False, **more: Any) -> Bounded:
    """The least element; exact."""
    if "initial" in more:
        more = {**more, "initial": -np.asarray(more["initial"], np.float64)}
    return mirrored(largest(mirrored(x), axis, keepdims, **more))


@implements(np.any)
def any_true(x: Bounded, axis: Axis = None, keepdims: bool = False) -> Any:
    """Three-valued: true for certain if one element is."""
    certain, possible = (np.any(f, axis=_axes(x, axis), keepdims=keepdims) for f in certain_and_possible(x))
    return truth(np.asarray(certain), np.asarray(possible))


@implements(np.all)
def all_true(x: Bounded, axis: Axis = None, keepdims: bool = False) -> Any:
    """Three-valued: true for certain if every element is."""
    certain, possible = (np.all(f, axis=_axes(x, axis), keepdims=keepdims) for f in certain_and_possible(x))
    return truth(np.asarray(certain), np.asarray(possible))


# --- contractions ------------------------------------------------------------------------------------------------


@implements(np.matmul)
def matmul(a: Any, b: Any) -> Bounded:
    """The matrix product, as numpy.matmul; sums of products in any order."""
    a, b = coerce(a, b)
    # a large matrix of weights is converted in blocks, of columns or of rows
    if _is_large(b):
        step = max(1, BLOCK // b.shape[0])
        return _joined([matmul(a, b[:, j : j + step]) for j in range(0, b.shape[1], step)], -1)
    if _is_large(a) and b.ndim <= 2:
        step = max(1, BLOCK // a.shape[1])
        return _joined([matmul(a[i : i + step], b) for i in range(0, a.shape[0], step)], 0)
    terms = a.shape[-1]
    factor, of_sum = summation(terms, TAKEN_UP, FOLDS, a.of, SLACK - FOLDS - TAKEN_UP) if a.of.is_float else (0.0, 0.0)
    u, v = a.value, b.value
    value = np.matmul(u, v)
    u_size, v_size = np.abs(u), np.abs(v)
    if not a.is_exact:
        u_size += a.radius
    # ra |b| + (|a| + ra) rb + factor (|a| + ra)(|b| + rb), gathered so as to multiply as few matrices as possible
    if a.of is FLOAT64:  # of a subnormal number the factor leaves nothing, and the other matrix may be huge
        radius = factor * np.matmul(u_size, v_size)
        if not a.is_exact:
            radius += np.matmul(a.radius, v_size)
    else:
        radius = np.matmul(factor * u_size if a.is_exact else factor * u_size + a.radius, v_size)
    if not b.is_exact:
        radius += np.matmul((1 + factor) * u_size, b.radius)
    if of_sum:
        radius = np.asarray(radius * (1 + of_sum) + of_sum * np.abs(value))

    def special(bad: Array) -> tuple[Array, Array]:
        return _special_product(a, b, u_size, v_size + b.radius, bad)

    out = _finished(a.of, value, radius, terms, factor, special, a.is_exact and b.is_exact)
    out.terms = terms + SLACK
    if a.follows_errors or b.follows_errors:
        magnitudes = np.matmul(u_size, v_size + b.radius)
        of_value = of_sum * np.minimum(magnitudes, np.abs(value) + radius)
        out.rounding = factor * magnitudes + of_value + 2 * terms * a.of.smallest_subnormal
    return out


def _is_large(x: Bounded) -> bool:
    """Whether `x` is a matrix that takes much more memory as float64, and can be cut in two."""
    return x.ndim == 2 and x.is_exact and x.raw.dtype != np.float64 and x.size > max(BLOCK, *x.shape)


def _joined(parts: list[Bounded], axis: int) -> Bounded:
    value = np.concatenate([p.value for p in parts], axis=axis)
    return Bounded(value, np.concatenate([p.radius for p in parts], axis=axis), parts[0].of, parts[0].terms)


def _special_product(a: Bounded, b: Bounded, u: Floats, v: Floats, bad: Array) -> tuple[Array, Array]:
    finite = np.matmul(np.where(np.isfinite(u), u, 0.0), np.where(np.isfinite(v), v, 0.0))
    ones_a, ones_b = np.ones(a.shape), np.ones(b.shape)
    # an infinite radius anywhere, or an infinity against an interval that holds 0 and more
    loose = np.matmul(np.isinf(a.radius) * 1.0, ones_b) + np.matmul(ones_a, np.isinf(b.radius) * 1.0)
    a_zero, b_zero = ((np.abs(x.value) <= x.radius) & (x.radius > 0) for x in (a, b))
    loose += np.matmul(np.isinf(a.value) * 1.0, b_zero * 1.0) + np.matmul(a_zero * 1.0, np.isinf(b.value) * 1.0)
    return np.asarray(finite)[bad], np.asarray(loose)[bad] > 0


@implements(np.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Bounded:
    """As `np.tensordot`, as one `matmul` of the operands with free and summed axes brought together."""
    a, b = coerce(a, b)
    if isinstance(axes, int):
        axes = (range(a.ndim - axes, a.ndim), range(axes))
    a_axes, b_axes = ([n % x.ndim for n in s] for s, x in zip(axes, (a, b), strict=True))
    a_free = [n for n in range(a.ndim) if n not in a_axes]
    b_free = [n for n in range(b.ndim) if n not in b_axes]
    terms = prod(a.shape[n] for n in a_axes)
    left = a.transpose([*a_free, *a_axes]).reshape(prod(a.shape[n] for n in a_free), terms)
    right = b.transpose([*b_axes, *b_free]).reshape(terms, prod(b.shape[n] for n in b_free))
    return matmul(left, right).reshape([a.shape[n] for n in a_free] + [b.shape[n] for n in b_free])

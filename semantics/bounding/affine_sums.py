"""What sums and matrix products make of errors that hang together (specs/semantics.md, "Errors that hang together")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from assay.semantics.bounding.affine import MANY, MATTERS, SLIP, Followed, finished, form
from assay.semantics.bounding.affine_rules import rule
from assay.semantics.bounding.core import Bounded, Floats, coerce
from assay.semantics.bounding.pointwise import rounded_literal
from assay.semantics.bounding.shared import COARSE, SMALLEST, Coarse, Errors, rows, union


def _axes(x: Bounded, axis: Any) -> tuple[int, ...]:
    return tuple(range(x.ndim)) if axis is None else tuple(int(a) % x.ndim for a in np.atleast_1d(axis))


@rule(np.sum)
def total(made: Bounded, x: Followed, axis: Any = None, dtype: Any = None, keepdims: bool = False, **more: Any) -> Any:
    """Exact but for the roundings."""
    if made.rounding is None:
        return made
    axes = _axes(x, axis)
    how: Any = {"axis": axes, "keepdims": bool(keepdims)}
    count = max(1, x.size // max(1, made.size))
    shared = each(made, x.shared, lambda e: np.sum(e, axis=tuple(a + 1 for a in axes), keepdims=bool(keepdims)))
    x.symbols.spend(x.shared.size)
    slip = SLIP * count * np.sum(np.abs(x.centre), **how) + coarse(count) * np.sum(x.shared.reach, **how)
    slip = slip + count * len(shared.ids) * SMALLEST
    rest = np.sum(x.rest, **how)
    if x.joints and axes == (x.ndim - 1,):
        ones = np.ones((x.shape[-1], 1))
        rest = np.reshape(sum(_mixed_rest(x, x.rest, ones)), rest.shape)
    return finished(made, x.symbols, shared, np.sum(x.centre, **how), rest + made.rounding + slip)


def _mixed_rest(x: Bounded, rest: Floats, by: Floats) -> tuple[Any, Any]:
    """The rests in a product of rows with a matrix of numbers that are not negative: of each element by itself, and of
    what has budgets."""
    joints = [j for j in x.joints if j.is_worth_it] if isinstance(x, Followed) else []
    if not joints:
        return np.matmul(rest, by), 0.0
    boxes = sum((j.box for j in joints), np.zeros(x.shape))
    alone = np.matmul(np.maximum(rest - boxes, 0.0) + SLIP * rest, by)
    return alone, sum((j.mixed(by) for j in joints), np.zeros(alone.shape))


def coarse(terms: int) -> float:
    """What a sum of products of so many numbers of `Errors` may be off by, as a part of all magnitudes."""
    return COARSE * (terms / 4 + 4)


def each(made: Bounded, shared: Errors, linear: Callable[[Coarse], Any]) -> Errors:
    """What a linear function makes of the errors."""
    base = np.empty((len(shared.ids), made.size), np.float32)
    for some in shared.pieces():
        base[some] = np.reshape(linear(shared.part(some)), (some.stop - some.start, made.size))
    return Errors(shared.ids, base, made.shape)


def _into(base: Coarse, at: Any, shared: Errors, linear: Callable[[Coarse], Any], adds: bool) -> None:
    """The same, into the rows `at` of what is there, or added to that."""
    for some in shared.pieces():
        found = np.reshape(linear(shared.part(some)), (some.stop - some.start, base.shape[1]))
        here = slice(at.start + some.start, at.start + some.stop) if isinstance(at, slice) else at[some]
        if adds:
            base[here] += found
        else:
            base[here] = found


@rule(np.mean)
def mean(made: Any, x: Followed, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """The sum over the count."""
    count = int(np.prod([x.shape[a] for a in _axes(x, axis)]))
    if not count or not isinstance(made, Bounded):
        return made
    summed: Any = x.sum(axis=axis, keepdims=bool(keepdims))
    if not isinstance(summed, Followed) or summed.rounding is None:
        return made
    # a mean may round twice more than a sum
    return np.divide(summed.widened(summed.rounding * (3 / count)), rounded_literal(x, count))


@rule(np.matmul)
def matmul(made: Bounded, a: Any, b: Any) -> Bounded:
    """The product of what both are off by is left out. That, and what the budgets of rows say of their rests, is one
    value to all that reads the result, as the operands are (rule M9.13): it gets symbols."""
    if made.rounding is None:
        return made
    a, b = coerce(a, b)
    if a.ndim < 2 or b.ndim < 2:
        return made
    symbols = (a if isinstance(a, Followed) else b).symbols
    u, v = a.value, b.value
    (a_mid, a_rest, a_reach), (b_mid, b_rest, b_reach) = form(a), form(b)
    centre, rest = np.matmul(a_mid, v), made.rounding
    terms = a.shape[-1]
    slip = SLIP * terms
    common: Any = 0.0
    if not b.is_exact:
        centre = centre + np.matmul(u, b_mid - v)
        common = _both_off(made, a, b)
        off = slip * (np.abs(b_mid - v) + b.radius) + coarse(terms) * b_reach
        rest = rest + np.matmul(np.abs(u), b_rest + off)
    off = slip * (np.abs(a_mid) + np.abs(u) + a.radius) + coarse(terms) * a_reach
    alone, together = _mixed_rest(a, a_rest + off, np.abs(v))
    rest, common = rest + alone, common + together
    followed = [x for x in (a, b) if isinstance(x, Followed) and len(x.shared.ids)]
    ids = union([x.shared.ids for x in followed])
    size = np.matmul(np.abs(u) + 1 + a_reach, np.abs(v) + 1 + b_reach)
    rest = rest + len(ids) * SMALLEST * size
    own = symbols.own(made, common)
    rest = rest + (np.where(own.reach > 0, 0.0, common) if len(own.ids) else common)
    base = np.zeros((len(ids) + len(own.ids), made.size), np.float32)
    left, right = u.astype(np.float32), v.astype(np.float32)
    products: Any = (
        (a, lambda e: _times(_padded(e, made.ndim), right)),
        (b, lambda e: _by(left, _padded(e, made.ndim))),
    )
    for x, product in products:
        if any(x is f for f in followed):
            symbols.spend(x.shared.size + len(x.shared.ids) * made.size)
            _into(base, rows(ids, x.shared.ids), x.shared, product, adds=x is not followed[0] or x is b)
    base[len(ids) :] = own.base
    return finished(made, symbols, Errors(np.concatenate([ids, own.ids]), base, made.shape), centre, rest)


def _both_off(made: Bounded, a: Bounded, b: Bounded) -> Floats:
    """What both operands are off, multiplied and summed: of rows and columns, of which not all elements are as far off
    as they may be at once."""
    most = np.asarray(np.matmul(a.radius, b.radius))
    matters = np.median(most) > MATTERS * np.median(made.radius)
    if not (matters and isinstance(a, Followed) and isinstance(b, Followed)) or made.size * a.shape[-1] > MANY:
        return most
    turned = b.transpose([*range(b.ndim - 2), b.ndim - 1, b.ndim - 2])
    assert isinstance(turned, Followed)
    (a_wide, a_most), (b_wide, b_most) = a.squares(), turned.squares()
    budget = np.sqrt(a_most * np.swapaxes(b_most, -1, -2))
    gain = a_wide[..., :, :, None] * np.swapaxes(b_wide, -1, -2)[..., None, :, :]
    return np.asarray(np.minimum(most, _budgeted_all(gain, budget)))


def _budgeted_all(gain: Floats, budget: Floats) -> Floats:
    """As `budgeted`, with a budget for each row and column, and no more than 1 of each."""
    ordered = -np.sort(-gain, axis=-2)
    before = np.arange(gain.shape[-2])[:, None]
    taken = np.clip(budget[..., None, :] * (1 + SLIP) - before, 0.0, 1.0)
    return np.asarray(np.sum(ordered * taken, axis=-2) * (1 + SLIP * gain.shape[-2]))


def _padded(errors: Coarse, ndim: int) -> Coarse:
    return errors.reshape(len(errors), *(1,) * (ndim + 1 - errors.ndim), *errors.shape[1:])


def _times(errors: Coarse, v: Coarse) -> Any:
    """A product with one matrix is one product, not one for each row."""
    if v.ndim == 2:
        return np.matmul(errors.reshape(-1, errors.shape[-1]), v).reshape(*errors.shape[:-1], v.shape[1])
    return np.matmul(errors, v)


def _by(u: Coarse, errors: Coarse) -> Any:
    """A product with rows of few elements, as of a convolution that takes each channel by itself, is a sum."""
    if u.shape[-2] > 1 or u.shape[-1] > 64:
        return np.matmul(u, errors)
    made: Any = 0.0
    for k in range(u.shape[-1]):
        made = made + u[..., 0, k, None] * errors[..., k, :]
    return made


@rule(np.tensordot)
def tensordot(made: Bounded, a: Any, b: Any, axes: Any = 2) -> Any:
    """One matmul, as that of intervals is."""
    a, b = coerce(a, b)
    if isinstance(axes, int):
        axes = (range(a.ndim - axes, a.ndim), range(axes))
    first, second = ([n % x.ndim for n in s] for s, x in zip(axes, (a, b), strict=True))
    left = a.transpose([*(n for n in range(a.ndim) if n not in first), *first])
    right = b.transpose([*second, *(n for n in range(b.ndim) if n not in second)])
    terms = int(np.prod([a.shape[n] for n in first]))
    return np.matmul(left.reshape(-1, terms), right.reshape(terms, -1)).reshape(made.shape)

"""What each function of NumPy makes of errors that hang together: its derivative, and a bound of what that leaves out
(specs/semantics.md, "Errors that hang together").

Each rule is handed the interval of its result, made by the rule of intervals, and the operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import pi, sqrt as root
from typing import Any, TypeVar

import numpy as np

from assay.semantics.bounding.affine import RULES, SLIP, Followed, elementwise, form, scaled_row, second
from assay.semantics.bounding.core import Array, Bounded, coerce, is_same, moved
from assay.semantics.bounding.movement import holds
from assay.semantics.bounding.pointwise import erf_array
from assay.semantics.bounding.shared import COARSE, SMALLEST, Errors, rows, union

Rule = TypeVar("Rule", bound=Callable[..., Any])


def rule(*functions: Any) -> Callable[[Rule], Rule]:
    """Register a rule as what these functions do to errors."""

    def register(made: Rule) -> Rule:
        RULES.update(dict.fromkeys(functions, made))
        return made

    return register


# --- arithmetic ------------------------------------------------------------------------------------------------------


@rule(np.add)
def add(made: Bounded, a: Any, b: Any) -> Bounded:
    """Exact but for the rounding."""
    if is_same(a, b):
        return elementwise(made, 2 * a.value, [(2.0, a)], 0.0)
    a, b = coerce(a, b)
    return elementwise(made, a.value + b.value, [(1.0, a), (1.0, b)], 0.0)


@rule(np.subtract)
def subtract(made: Bounded, a: Any, b: Any) -> Bounded:
    """Exact but for the rounding; of one value it is 0 already."""
    if is_same(a, b):
        return made
    a, b = coerce(a, b)
    return elementwise(made, a.value - b.value, [(1.0, a), (-1.0, b)], 0.0)


@rule(np.multiply)
def multiply(made: Bounded, a: Any, b: Any) -> Bounded:
    """The product of what both are off by is left out; of a square it is between 0 and the square of that."""
    if is_same(a, b):
        return _squared(made, a)
    a, b = coerce(a, b)
    joint = second(made, a, 1.0, b)
    for x, other in ((a, b), (b, a)):
        if joint is None and other.shape == (*x.shape[:-1], 1):
            joint = scaled_row(made, x, other.radius)
    return elementwise(made, a.value * b.value, [(b.value, a), (a.value, b)], a.radius * b.radius, joint=joint)


def _squared(made: Bounded, x: Bounded) -> Bounded:
    joint = second(made, x, 1.0)
    if joint is not None and joint.is_worth_it:
        return elementwise(made, x.value**2, [(2 * x.value, x)], x.radius**2, joint=joint)
    half = x.radius**2 / 2
    return elementwise(made, x.value**2 + half, [(2 * x.value, x)], half)


@rule(np.square)
def square(made: Bounded, x: Any) -> Bounded:
    """x * x."""
    return multiply(made, x, x)


@rule(np.divide)
def divide(made: Bounded, a: Any, b: Any) -> Bounded:
    """a / b - q = (da - q db) / b, for q the quotient of the middles."""
    if is_same(a, b):
        return made
    a, b = coerce(a, b)
    q = a.value / b.value
    least = np.abs(b.value) - b.radius
    off = (a.radius + np.abs(q) * b.radius) * b.radius
    left = np.where(b.radius == 0, 0.0, np.where(least > 0, off / (np.abs(b.value) * least), np.inf))
    joint = None
    if b.shape == (*a.shape[:-1], 1) and (least > 0).all():
        joint = scaled_row(made, a, b.radius / (np.abs(b.value) * least))
    return elementwise(made, q, [(1 / b.value, a), (-q / b.value, b)], left, joint=joint)


@rule(np.reciprocal)
def reciprocal(made: Bounded, x: Any) -> Bounded:
    """1 / x."""
    return divide(made, 1.0, x)


@rule(np.negative)
def negative(made: Bounded, x: Bounded) -> Bounded:
    """Exact."""
    return elementwise(made, -x.value, [(-1.0, x)], 0.0, exact=True)


@rule(np.positive)
def positive(made: Bounded, x: Bounded) -> Bounded:
    """The operand."""
    return x


# --- functions of one element: derivative, and half the largest second derivative times the square of the radius -----


def _curved(f: Callable[[Any], Any], slope: Callable[[Any], Any], bends: Callable[[Any, Any], Any]) -> Any:
    def made_rule(made: Bounded, x: Bounded) -> Bounded:
        low, high = x.interval()
        bend = np.where(x.radius == 0, 0.0, bends(low, high) / 2)
        left = np.where(x.radius == 0, 0.0, bend * x.radius**2)
        left = np.where(np.isnan(left), np.inf, left)
        return elementwise(made, f(x.value), [(slope(x.value), x)], left, joint=second(made, x, bend))

    return made_rule


def _largest(low: Any, high: Any) -> Any:
    return np.maximum(np.abs(low), np.abs(high))


def _least(low: Any, high: Any) -> Any:
    return np.where((low <= 0) & (high >= 0), 0.0, np.minimum(np.abs(low), np.abs(high)))


def _tanh_second(low: Any, high: Any) -> Any:
    t = np.tanh(_least(low, high))
    return 2 * np.minimum(np.tanh(_largest(low, high)) * (1 - t * t), 0.385) * (1 + 1e-9)


def _erf_second(low: Any, high: Any) -> Any:
    least = _least(low, high)
    return 4 / root(pi) * np.minimum(_largest(low, high) * np.exp(-least * least), 0.4289) * (1 + 1e-9)


rule(np.exp)(_curved(np.exp, np.exp, lambda low, high: np.exp(high)))
rule(np.log)(_curved(np.log, lambda x: 1 / x, lambda low, high: np.where(low > 0, 1 / low**2, np.inf)))
rule(np.sqrt)(
    _curved(np.sqrt, lambda x: 0.5 / np.sqrt(x), lambda low, high: np.where(low > 0, 0.25 / low**1.5, np.inf))
)
rule(np.tanh)(_curved(np.tanh, lambda x: 1 - np.tanh(x) ** 2, _tanh_second))
rule(np.sin)(_curved(np.sin, np.cos, lambda low, high: 1.0))
rule(np.cos)(_curved(np.cos, lambda x: -np.sin(x), lambda low, high: 1.0))
rule("erf")(_curved(erf_array, lambda x: 2 / root(pi) * np.exp(-x * x), _erf_second))


@rule(np.power)
def power(made: Bounded, a: Any, b: Any) -> Bounded:
    """Of an exponent that is known, and a base above 0 or a whole exponent of 2 or more."""
    a, b = coerce(a, b)
    n, p = b.value, a.value
    if not b.is_decided or not isinstance(a, Followed):
        return made
    if (n == 2).all() and made.shape == a.shape:
        return _squared(made, a)
    low, high = a.interval()
    known = (low > 0) | ((np.rint(n) == n) & (n >= 2))
    most = np.maximum(np.abs(low) ** (n - 2), np.abs(high) ** (n - 2))
    bend = np.where(a.radius == 0, 0.0, np.where(known, np.abs(n * (n - 1)) * most / 2, np.inf))
    left = np.where(a.radius == 0, 0.0, bend * a.radius**2)
    joint = second(made, a, bend) if made.shape == a.shape else None
    return elementwise(made, np.power(p, n), [(n * np.power(p, n - 1), a)], left, joint=joint)


# --- choices -----------------------------------------------------------------------------------------------------


def _kinked(low: Any, high: Any) -> tuple[Any, Any]:
    """max(d, 0) for d in an interval: the slope of the chord, and the greatest gap between both."""
    open_ = (low < 0) & (high > 0)
    slope = np.where(open_, high / (high - low), np.where(low >= 0, 1.0, 0.0))
    return slope, np.where(open_, -slope * low, 0.0)


@rule(np.maximum)
def maximum(made: Bounded, a: Any, b: Any) -> Bounded:
    """b + max(a - b, 0), by the chord where it is open which is greater."""
    if is_same(a, b):
        return made
    a, b = coerce(a, b)
    (a_low, a_high), (b_low, b_high) = a.interval(), b.interval()
    by, gap = _kinked(a_low - b_high, a_high - b_low)
    base = _between(by, a.value, b.value) + gap / 2
    return elementwise(made, base, [(by, a), (1 - by, b)], gap / 2 * (1 + SLIP), exact=True)


def _between(by: Any, a: Any, b: Any) -> Any:
    """by * a + (1 - by) * b, of which one may be an infinity that does not count."""
    return np.where(by == 0, b, np.where(by == 1, a, b + by * (a - b)))


@rule(np.minimum)
def minimum(made: Bounded, a: Any, b: Any) -> Bounded:
    """a + b - max(a, b)."""
    if is_same(a, b):
        return made
    a, b = coerce(a, b)
    (a_low, a_high), (b_low, b_high) = a.interval(), b.interval()
    by, gap = _kinked(b_low - a_high, b_high - a_low)
    base = _between(by, a.value, b.value) - gap / 2
    return elementwise(made, base, [(by, a), (1 - by, b)], gap / 2 * (1 + SLIP), exact=True)


@rule(np.absolute)
def absolute(made: Bounded, x: Bounded) -> Bounded:
    """2 max(x, 0) - x."""
    low, high = x.interval()
    by, gap = _kinked(low, high)
    by = 2 * by - 1
    return elementwise(made, by * x.value + gap, [(by, x)], gap * (1 + SLIP), exact=True)


@rule(np.clip)
def clip(made: Bounded, x: Any, low: Any = None, high: Any = None) -> Any:
    """At least `low`, at most `high`."""
    if low is not None:
        x = np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


@rule(np.where)
def where(made: Any, condition: Any, a: Any, b: Any) -> Any:
    """The branch that is taken; where that is open, the interval of both."""
    if not isinstance(made, Bounded):
        return made
    a, b = coerce(a, b)
    if isinstance(condition, Bounded):
        sure, taken = condition.radius == 0, condition.value > 0.5
    else:
        taken = np.asarray(condition, bool)
        sure = np.ones(taken.shape, bool)
    by = np.where(sure, taken, 0.0)
    other = np.where(sure, ~taken, 0.0)
    base = np.where(sure, np.where(taken, a.value, b.value), made.value)
    left = np.where(sure, 0.0, made.radius)
    parts = [(by, _finite(a)), (other, _finite(b))]
    return elementwise(made, base, parts, left, exact=True)


def _finite(x: Bounded) -> Bounded:
    """An operand whose elements may be chosen away: 0 times it is 0."""
    if isinstance(x, Followed) or (np.isfinite(x.value).all() and np.isfinite(x.radius).all()):
        return x
    known = np.isfinite(x.value) & np.isfinite(x.radius)
    return Bounded(np.where(known, x.value, 0.0), np.where(known, x.radius, 0.0), x.of)


@rule(np.max)
def largest(made: Bounded, x: Followed, axis: Any = None, keepdims: bool = False, **more: Any) -> Bounded:
    """The element with the greatest middle, and how far another may be above it."""
    return _extreme(made, x, axis, keepdims, more, 1.0)


@rule(np.min)
def least(made: Bounded, x: Followed, axis: Any = None, keepdims: bool = False, **more: Any) -> Bounded:
    """The element with the least middle, and how far another may be below it."""
    return _extreme(made, x, axis, keepdims, more, -1.0)


def _extreme(made: Bounded, x: Followed, axis: Any, keepdims: bool, more: Any, sign: float) -> Bounded:
    if more or not isinstance(axis, (int, np.integer)):
        axes = tuple(range(x.ndim)) if axis is None else tuple(a % x.ndim for a in np.atleast_1d(axis))
        if more or not axes:
            return made
        rest = [a for a in range(x.ndim) if a not in axes]
        flat = x.transpose([*rest, *axes]).reshape(*(x.shape[a] for a in rest), -1)
        assert isinstance(flat, Followed)
        shape = made.shape
        found = _extreme(made.reshape([x.shape[a] for a in rest]), flat, -1, False, {}, sign)
        return found.reshape(shape)
    axis = axis % x.ndim
    best = np.argmax(sign * x.value, axis=axis, keepdims=True)
    chosen = moved(x, lambda a: np.take_along_axis(a, best, axis))
    high, low = sign * x.value + x.radius, sign * chosen.value - chosen.radius
    others = np.arange(x.shape[axis]).reshape(-1, *(1,) * (x.ndim - 1 - axis)) != best
    above = np.maximum(np.max(np.where(others, high - low, -np.inf), axis=axis, keepdims=True), 0.0)
    above = above * (1 + SLIP) + SLIP * np.abs(chosen.value) * (above > 0)
    if not keepdims:
        chosen, above = chosen.squeeze(axis), above.squeeze(axis)
    return elementwise(made, chosen.value + sign * above / 2, [(1.0, chosen)], above / 2 * (1 + SLIP), exact=True)


# --- movement --------------------------------------------------------------------------------------------------------


def _moved_parts(made: Bounded, parts: Sequence[Bounded], places: Array) -> Bounded:
    """`made`, of elements of several tensors: `places` count through all of them, one after another."""
    followed = [x for x in parts if isinstance(x, Followed)]
    ids = union([x.shared.ids for x in followed])
    base, first = np.zeros((len(ids), sum(x.size for x in parts)), np.float32), 0
    for x in parts:
        if isinstance(x, Followed) and len(x.shared.ids):
            base[rows(ids, x.shared.ids), first : first + x.size] = x.shared.part(slice(None)).reshape(
                len(x.shared.ids), x.size
            )
        first += x.size
    followed[0].symbols.spend(base.size)
    centre, rest, reach = (np.concatenate([form(x)[i].ravel() for x in parts]) for i in range(3))
    rest = rest + COARSE * reach + len(ids) * SMALLEST
    whole = Bounded(centre, rest, made.of)
    joined = Followed(whole, followed[0].symbols, Errors(ids, base, centre.shape), centre, rest)
    return joined.at(made, places)


def _joined(function: Any) -> Any:
    def joined(made: Bounded, parts: Sequence[Any], *args: Any, **kwargs: Any) -> Bounded:
        xs = coerce(*parts)
        first, places = 0, []
        for x in xs:
            places.append(np.arange(first, first + x.size).reshape(x.shape))
            first += x.size
        return _moved_parts(made, xs, function(places, *args, **kwargs))

    return joined


rule(np.concatenate)(_joined(np.concatenate))
rule(np.stack)(_joined(np.stack))


@rule(np.split, np.array_split)
def split(made: list[Bounded], x: Followed, *args: Any, **kwargs: Any) -> list[Bounded]:
    """The pieces."""
    places = np.array_split(np.arange(x.size).reshape(x.shape), *args, **kwargs)
    return [x.at(m, p) for m, p in zip(made, places, strict=True)]


@rule(np.pad)
def pad(made: Bounded, x: Followed, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Bounded:
    """What is filled in with a constant is exact."""
    more = {"constant_values": -1} if mode == "constant" else kwargs
    return x.at(made, np.pad(np.arange(x.size).reshape(x.shape), pad_width, mode, **more))


@rule("astype")
def astype(made: Any, x: Followed, to: Any) -> Any:
    """One rounding at most."""
    if not isinstance(made, Bounded) or not made.of.is_float or made is x:
        return made
    return elementwise(made, x.value, [(1.0, x)], 0.0, exact=made.rounding is None and holds(made.of, x.of))

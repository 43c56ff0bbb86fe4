"""What functions of several steps make of errors that hang together, as one function each: its derivative, a bound of
what that leaves out, and what a correct implementation rounds (specs/semantics.md, "Errors that hang together").

What is rounded is said for operands anywhere in their intervals; a test holds it against the intervals of the formula
on operands without error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from assay.semantics.bounding.affine import MATTERS, SLIP, WHOLES, Followed, Joint, budgeted, elementwise
from assay.semantics.bounding.affine_sums import coarse, each
from assay.semantics.bounding.core import Array, Bounded, Floats
from assay.semantics.bounding.model import SLACK, elementary, gamma, unit
from assay.semantics.bounding.shared import SMALLEST

Rule = TypeVar("Rule", bound=Callable[..., Any])


def whole(name: str) -> Callable[[Rule], Rule]:
    """Register a rule as what a function of that name does to errors."""

    def register(made: Rule) -> Rule:
        WHOLES[name] = made
        return made

    return register


@whole("leakyrelu")
def leakyrelu(made: Bounded, x: Bounded, alpha: float) -> Bounded:
    """x, or alpha * x below 0: by the chord where it is open which."""
    low, high = x.interval()
    open_ = (low < 0) & (high > 0)
    slope = np.where(open_, (high - alpha * low) / (high - low), np.where(low >= 0, 1.0, alpha))
    at_zero = np.where(open_, low * (alpha - slope), 0.0)  # of the chord; the function is 0 there
    made.rounding = np.where(low < 0, unit(x.of) * np.abs(alpha * low) + 2 * x.of.smallest_subnormal, 0.0)
    return elementwise(made, slope * x.value + at_zero / 2, [(slope, x)], np.abs(at_zero) / 2)


@whole("sigmoid")
def sigmoid(made: Bounded, x: Bounded) -> Bounded:
    """1 / (1 + exp(-x)), of which the second derivative is s (1 - s) (1 - 2 s), never more than 0.0963."""
    low, high = x.interval()
    s = _logistic(x.value)
    ends = _logistic(low), _logistic(high)
    steep = np.where((low <= 0) & (high >= 0), 0.25, np.maximum(*(e * (1 - e) for e in ends)))
    bend = np.minimum(steep * np.maximum(*(np.abs(1 - 2 * e) for e in ends)), 0.0963) * (1 + 1e-9)
    made.rounding = sigmoid_rounding(x.of)
    return elementwise(made, s, [(s * (1 - s), x)], bend * x.radius**2 / 2)


def sigmoid_rounding(of: Any) -> float:
    """What a sigmoid may be off by: e / (1 + e) or 1 / (1 + e) by an exponential, or half a tanh and a half."""
    steps = 0.75 * elementary("exp", of) + 2 * unit(of)  # as of a numerator and a denominator of their own
    return float(1 / float(of.max) + elementary("tanh", of) / 2 + unit(of) + steps * (1 + 16 * unit(of)))


def _logistic(x: Any) -> Any:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, e) / (1 + e)


# --- functions of a row ----------------------------------------------------------------------------------------------


def _deviation(x: Followed, gone: Any = False) -> Followed:
    """How far each element is from the middle of its interval; those that are `gone` not at all."""
    kept = [np.where(gone, 0.0, a) for a in (x.radius, x.centre - x.value, x.rest + SLIP * np.abs(x.centre))]
    shared = x.shared.without(np.broadcast_to(gone, x.shape))
    return Followed(Bounded(np.zeros(x.shape), kept[0], x.of), x.symbols, shared, kept[1], kept[2])


def _less(t: Followed, a: Floats, b: Floats) -> Followed:
    """Deviations less a[i] times the sum of b[j] times those of their row."""
    count = t.shape[-1]
    first, other = a.astype(np.float32), b.astype(np.float32)
    t.symbols.spend(2 * t.shared.size)
    shared = each(t, t.shared, lambda e: e - first * np.sum(e * other, axis=-1, keepdims=True))

    def reach(of: Floats) -> Floats:
        return np.asarray(of + np.abs(a) * np.sum(np.abs(b) * of, axis=-1, keepdims=True))

    off = t.centre - a * np.sum(b * t.centre, axis=-1, keepdims=True)
    rest = reach(t.rest + coarse(count) * t.shared.reach + SLIP * count * np.abs(t.centre))
    rest = rest + len(shared.ids) * count * SMALLEST * (1 + np.abs(a)) * (1 + np.max(np.abs(b)))
    radius = np.minimum(reach(t.radius), shared.reach + np.abs(off) + rest)
    return Followed(Bounded(np.zeros(t.shape), radius * (1 + SLIP * count), t.of), t.symbols, shared, off, rest)


def _sum_of(t: Followed, b: Floats) -> Floats:
    """The largest magnitude of the sum of b[j] times the deviations of a row."""
    count, other = t.shape[-1], b.astype(np.float32)
    one = Bounded(np.zeros((*t.shape[:-1], 1)), 0.0, t.of)
    reach = each(one, t.shared, lambda e: np.sum(e * other, axis=-1, keepdims=True)).reach
    own = np.abs(t.centre) + t.rest + coarse(count) * t.shared.reach + len(t.shared.ids) * SMALLEST
    return np.asarray(reach + np.sum(np.abs(b) * own, axis=-1, keepdims=True) * (1 + SLIP * count))


@whole("softmax")
def softmax(made: Bounded, x: Followed, axis: int) -> Bounded | None:
    """exp(x_i) / sum of exp(x_j). With d_i what x_i is off, less the mean of that over the row with the softmax as
    weights, the derivative is p_i d_i. The second one, on the way, is p_i ((d_i - m)^2 - v), for m and v the mean and
    the variance of d with the weights there. An element far below the greatest is 0."""
    if axis % x.ndim != x.ndim - 1 or x.shape[-1] < 2:
        return None
    low, high = x.interval()
    gone = high < np.max(low, axis=-1, keepdims=True) - GONE
    if not np.isfinite(np.where(gone, 0.0, x.value + x.radius)).all():
        return None
    e = np.where(gone, 0.0, np.exp(x.value - np.max(np.where(gone, -np.inf, x.value), axis=-1, keepdims=True)))
    p = e / e.sum(axis=-1, keepdims=True)
    d = _less(_deviation(x, gone), np.where(gone, 0.0, 1.0), p)
    h = d.radius
    up, down = e * np.exp(h), e * np.exp(-h)
    most = up / (up + down.sum(axis=-1, keepdims=True) - down) * (1 + SLIP)
    least = down / (down + up.sum(axis=-1, keepdims=True) - up) * (1 - SLIP)
    spread = np.sum(most * h * h, axis=-1, keepdims=True)
    if (spread > MATTERS * np.max(h, axis=-1, keepdims=True)).any():
        wide, together = d.squares()
        spread = np.minimum(spread, budgeted((most * wide * wide)[..., None], np.ones(x.shape), together))
    middle = np.minimum(spread, np.sum(most * h, axis=-1, keepdims=True))
    left = most * np.maximum((h + middle) ** 2, spread) / 2 * (1 + SLIP)
    rounds, tiny = softmax_rounding(x, most)
    made = _within(made, least * (1 - rounds) - tiny, most * (1 + rounds) + tiny)
    made.rounding = most * rounds + tiny
    joint = Joint(left, np.where(gone, 0.0, 1.0), spread * (1 + SLIP * x.shape[-1]))
    return elementwise(made, p, [(p, d)], left, joint=joint)


GONE = 700.0
"""So far below the greatest element an exponential is nothing, in float64 too."""


def softmax_rounding(x: Bounded, most: Floats) -> tuple[Floats, float]:
    """What elements of a softmax that are `most` at most may be off by, as a part of themselves, and beside: each
    exponential by what is rounded of its operand and by itself, their sum, and the quotient."""
    of, count = x.of, x.shape[-1]
    low, high = x.interval()
    below = np.minimum(np.max(high, axis=-1, keepdims=True) - low, GONE)
    one = np.expm1(unit(of) * below * (1 + unit(of))) + elementary("exp", of) * (1 + 1000 * unit(of))
    total = np.sum(most * one, axis=-1, keepdims=True) + gamma(count + 2, of)
    parts = (one + total + unit(of)) * (1 + 2 * (one + total))
    return np.where(parts < 0.1, parts, np.inf), 4 * (count + 2) * of.smallest_subnormal


def _within(made: Bounded, low: Array, high: Array) -> Bounded:
    """The interval, no wider than from `low` to `high`."""
    value, radius = made.value, made.radius
    low, high = np.maximum(low, value - radius), np.minimum(high, value + radius)
    middle, half = low / 2 + high / 2, (high / 2 - low / 2) * (1 + SLIP) + SLIP * np.abs(high)
    better = (half < radius) & (half >= 0) & np.isfinite(middle)
    return Bounded(np.where(better, middle, value), np.where(better, half, radius), made.of)


@whole("layer_norm")
def layer_norm(
    made: Bounded, x: Followed, gain: Any, offset: Any, axes: tuple[int, ...], epsilon: float
) -> Bounded | None:
    """(x - mean) / s * gain + offset, for s the root of the variance and epsilon, and y the quotient. With u what
    x - mean is off, over s, q the mean of y u, and w that of u^2, the quotient is (y + u) / sqrt(1 + 2 q + w):
    y + u - q y, and what that leaves out."""
    known = all(not isinstance(v, Bounded) or v.is_exact for v in (gain, offset))
    if not known or axes != (x.ndim - 1,) or x.shape[-1] < 2:
        return None
    by, plus = (
        np.asarray(v.value if isinstance(v, Bounded) else 0.0 if v is None else v, np.float64) for v in (gain, offset)
    )
    count = x.shape[-1]
    c = x.value - np.mean(x.value, axis=-1, keepdims=True)
    s = np.sqrt(np.mean(c * c, axis=-1, keepdims=True) + epsilon)
    y = c / s
    d = _less(_deviation(x), np.ones(x.shape), np.full(x.shape, 1 / count))
    h = d.radius / s
    linear = _less(d, y, y / count)
    w = np.mean(h * h, axis=-1, keepdims=True)
    q = np.minimum(_sum_of(d, y / count) / s, np.mean(np.abs(y) * h, axis=-1, keepdims=True))
    budget = np.full(w.shape, float(count))
    if (w > MATTERS * np.max(h, axis=-1, keepdims=True)).any():
        wide, budget = d.squares()
        w = np.minimum(w, budgeted(((wide / s) ** 2 / count)[..., None], np.ones(x.shape), budget))
    q = np.minimum(q, np.sqrt(w))
    z = 2 * q + w
    more = np.where(z < 0.5, np.maximum(w / 2, 0.375 * z * z / np.maximum(1 - z, 0.5) ** 2.5), np.inf)
    joint = Joint((q + more) * h * np.abs(by), (q + more) * h * np.abs(by), np.sqrt(count * budget))
    left = ((q + more) * h + np.abs(y) * more) * (1 + SLIP * count)
    least = s * np.sqrt(np.maximum(1 - z, 0.5))
    made.rounding = layer_norm_rounding(x, d.radius, c, least, np.abs(by), np.abs(plus), epsilon)
    return elementwise(made, y * by + plus, [(by / s, linear)], left * np.abs(by), joint=joint)


def layer_norm_rounding(
    x: Bounded, off: Floats, c: Floats, least: Floats, by: Floats, plus: Floats, epsilon: float
) -> Floats:
    """What a layer norm may be off by, of which x - mean is `c` and off by no more than `off`, and the root of the
    variance and epsilon is no less than `least`: its formula, or a variance by squares less the squared mean, or a
    scale and a shift."""
    of, count, u = x.of, x.shape[-1], unit(x.of)

    def mean(a: Floats) -> Floats:
        return np.asarray(np.mean(a, axis=-1, keepdims=True))

    size, centred = np.abs(x.value) + x.radius, np.abs(c) + off
    average = (gamma(count + 4, of) + 3 * u) * mean(size)
    of_centred = average + u * (centred + average)
    squares = mean((centred + of_centred) ** 2)
    variance = mean(2 * centred * of_centred + of_centred**2) + (gamma(count + 4, of) + 4 * u) * squares
    variance = variance + gamma(count + SLACK, of) * (mean(size**2) + (mean(size) + average) ** 2) * (1 + 8 * u)
    root = (variance + 2 * u * epsilon + u * (squares + epsilon)) / least**2
    root = np.where(root < 0.1, root / 2 * (1 + root), np.inf) + u
    quotient = of_centred / least + (centred / least) * (root + 2 * u) * (1 + 4 * root)
    folded = gamma(3 + SLACK, of) * ((size + mean(size) + average) / least * by * (1 + 2 * root) + plus)
    rounded = (by * quotient * (1 + 4 * u) + u * (centred / least * by + plus) + folded) * (1 + 16 * u)
    return np.asarray(rounded + of.smallest_subnormal * (2 * size + 2 * mean(size) + 64 * count))

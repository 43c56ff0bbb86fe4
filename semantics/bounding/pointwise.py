"""Rules for functions of one element at a time (specs/semantics.md, "Numbers").

Each rule names the centre, the spread that the operands' intervals cause, and the corners. A monotone function's
extremes are at the ends of its operand's interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from assay.semantics.bits import raised
from assay.semantics.bounding.core import Array, Bounded, Floats, coerce, implements, is_same
from assay.semantics.bounding.model import FOLDS, U64, elementary, gamma, unit
from assay.semantics.bounding.rounding import not_below, not_below_zero, rounding_bound


def _pairs(f: Callable[[Any, Any], Any], a: Bounded, b: Bounded) -> list[Any]:
    """`f` at the four corners of two intervals."""
    return [f(x, y) for x in a.interval() for y in b.interval()]


def _spread(x: Bounded) -> Any:
    return 0.0 if x.is_exact else x.radius


def rounded_literal(x: Any, number: float) -> Any:
    """The real `number` in the dtype of `x`: rounded for an array; for intervals, any rounding of it.

    For constants that an implementation may fold its own way, such as 1 / sqrt(2).
    """
    rounded = np.asarray(number).astype(x.dtype)
    if not isinstance(x, Bounded):
        return rounded[()]
    off = 0 if float(rounded) == number else unit(x.of) * abs(number) + x.of.smallest_subnormal
    return Bounded(np.float64(number), off, x.of)


# --- exact up to one rounding ------------------------------------------------------------------------------------


@implements(np.add)
def add(a: Any, b: Any) -> Bounded:
    """A sum below the normal numbers is exact; a sum of numbers that are not negative is not below either of them."""
    a, b = coerce(a, b)
    if is_same(a, b) and a.of.is_float:
        return multiply(a, 2.0)
    value = a.value + b.value
    out = rounding_bound(a.of, value, _spread(a) + _spread(b), (a, b), lambda: _pairs(np.add, a, b), underflows=False)
    wide = out.radius > out.value  # of each element by itself: what an interval is must not depend on its neighbours
    if wide.any() and (wide := wide & _not_negative(a) & _not_negative(b)).any():
        out = not_below(out, np.maximum(a.interval()[0], b.interval()[0]), wide)
    return _taken_up(out, a, b)


def difference(a: Any, b: Any) -> Any:
    """a - b of arrays or intervals, as an operator of a program: a term that is subtracted may be taken up as well. A
    formula that subtracts within an operator, as softmax does its maximum, has a - b."""
    made = a - b
    if not isinstance(made, Bounded) or is_same(a, b):
        return made
    a, b = coerce(a, b)
    return _taken_up(made, a, b, -1)


def _taken_up(out: Bounded, a: Bounded, b: Bounded, sign: int = 1) -> Bounded:
    """A sum S and one more term t, of either sign, which may stand in the accumulator from the beginning, so that every
    later addition rounds it too (rule M9.8). A partial sum with t is at most |t + S / 2| - |S| / 2 beyond the largest
    one without it; t may be multiplied by what is folded into the products."""
    if not (a.terms or b.terms) or not out.of.is_float:
        return out
    more: Any = 0.0
    for one, other in ((a, b), (b, a)):
        if one.terms:
            t, off = (other.value if sign > 0 else -other.value), _spread(other)
            beyond = np.abs(t + one.value / 2) - np.abs(one.value) / 2
            beyond = np.minimum(np.abs(t), np.maximum(beyond, 0.0) * (1 + 8 * U64) + 8 * U64 * np.abs(t) + _spread(one))
            more = more + gamma(one.terms, out.of) * (beyond + off) + gamma(FOLDS, out.of) * (np.abs(t) + off)
    known = np.isfinite(out.value) & np.isfinite(more)
    return out.widened(np.where(known, more, 0.0), a.terms + b.terms + 1)


@implements(np.subtract)
def subtract(a: Any, b: Any) -> Bounded:
    """a - b, exactly 0 where both are the same finite array."""
    a, b = coerce(a, b)
    if is_same(a, b):
        return _itself(a, 0.0, np.isfinite(a.value))
    spread = _spread(a) + _spread(b)
    return rounding_bound(a.of, a.value - b.value, spread, (a, b), lambda: _pairs(np.subtract, a, b), underflows=False)


def _itself(x: Bounded, result: float, finite: Array) -> Bounded:
    """`result`, which a value used twice gives for certain where it is `finite`; NaN where it is NaN or an infinity,
    and anything where it may be one (rule M9.7). Integers wrap, so that x - x is 0 whatever x is."""
    known = ~np.isinf(x.radius) if x.of.is_float else np.ones(x.shape, bool)
    return Bounded(np.where(finite | ~known, result, np.nan), np.where(known, 0.0, np.inf), x.of)


def _is_zero(x: Bounded) -> Array:
    return np.asarray((x.value == 0) & (x.radius == 0))


@implements(np.multiply)
def multiply(a: Any, b: Any) -> Bounded:
    """A product of an interval with itself is a square, which is not negative."""
    square = is_same(a, b)
    a, b = coerce(a, b)
    u, v = a.value, b.value
    spread: Any = 0.0
    if not b.is_exact:
        spread = np.abs(u) * b.radius
    if not a.is_exact:
        spread = spread + (np.abs(v) + _spread(b)) * a.radius
    out = rounding_bound(
        a.of, u * v, spread, (a, b), lambda: _pairs(np.multiply, a, b), zero=lambda: _is_zero(a) | _is_zero(b)
    )
    out = not_below_zero(out) if square else _same_sign(out, a, b)
    if not (a.terms and b.terms):
        out.terms = a.terms or b.terms  # a factor may stand in each product
    return out


def _not_negative(x: Bounded) -> Array:
    """Where an interval does not reach below 0."""
    return np.asarray(x.value >= x.radius)


def _same_sign(out: Bounded, a: Bounded, b: Bounded) -> Bounded:
    """A product or quotient of numbers that are not negative is not negative."""
    if (out.radius > out.value).any():
        return not_below_zero(out, _not_negative(a) & _not_negative(b))
    return out


@implements(np.square)
def square(x: Any) -> Bounded:
    """x * x of one and the same operand."""
    return multiply(x, x)


@implements(np.divide)
def divide(a: Any, b: Any) -> Bounded:
    """Division by an interval that holds 0 may give anything: even a sum that is exactly 0 has no certain sign."""
    a, b = coerce(a, b)
    if is_same(a, b) and not (a.is_exact or (np.abs(a.value) <= a.radius).any()):
        return _itself(a, 1.0, np.isfinite(a.value))
    value = a.value / b.value
    spread: Any = 0.0
    divisor = b
    if not (a.is_exact and b.is_exact):
        off = np.abs(b.value) - _spread(b)
        spread = (_spread(a) + np.abs(value) * _spread(b)) / np.where(off > 0, off, 0.0)
        # 0 / 0 above is NaN, which `rounding_bound` sends to the corners; these do not see the pole between them
        pole = (off <= 0) & ((b.radius > 0) | ~b.as_given)
        if pole.any():
            divisor = Bounded(b.value, np.where(pole, np.inf, b.radius), b.of)
    out = rounding_bound(
        a.of, value, spread, (a, divisor, b), lambda: _pairs(np.divide, a, divisor), zero=lambda: _is_zero(a)
    )
    return _same_sign(out, a, b)


@implements(np.reciprocal)
def reciprocal(x: Any) -> Bounded:
    """1 / x, rounded once."""
    return divide(1.0, x)


@implements(np.sqrt)
def sqrt(x: Bounded) -> Bounded:
    """An operand that may be negative may give NaN; one that cannot be (a sum of squares) has no negative part."""
    low, high = x.interval()
    value = np.sqrt(x.value)
    spread: Any = 0.0
    if not x.is_exact:
        # concave: the root falls off faster below than it rises above
        spread = x.radius / (value + np.sqrt(low)) * (1 + 8 * U64)
        spread = np.where(x.radius == 0, 0.0, np.where(low < 0, np.nan, spread))
    return rounding_bound(x.of, value, spread, (x,), lambda: [np.sqrt(low), np.sqrt(high)], underflows=False)


# --- elementary functions ----------------------------------------------------------------------------------------


@implements(np.exp)
def exp(x: Bounded) -> Bounded:
    """The exponential function, never below 0."""
    value = np.exp(x.value)
    spread = 0.0 if x.is_exact else np.exp(x.interval()[1]) - value  # rises faster above than it falls below
    out = rounding_bound(
        x.of, value, spread, (x,), lambda: [np.exp(e) for e in x.interval()], relative=elementary("exp", x.of)
    )
    return not_below_zero(out)


@implements(np.log)
def log(x: Bounded) -> Bounded:
    """The natural logarithm; NaN may be the answer where the interval reaches below 0."""
    low, high = x.interval()
    value = np.log(x.value)
    # log1p: the logarithm falls off faster below than it rises above; NaN from 0 downwards goes to the corners
    spread = 0.0 if x.is_exact else np.where(x.radius == 0, 0.0, -np.log1p(-x.radius / x.value) * (1 + 8 * U64))
    return rounding_bound(
        x.of, value, spread, (x,), lambda: [np.log(low), np.log(high)], relative=elementary("log", x.of)
    )


def monotone(name: str, f: Callable[[Any], Any], x: Bounded) -> Bounded:
    """An increasing function with values of magnitude 1 at most; at the infinities it is exactly -1 or 1."""
    value = f(x.value)
    ends = [] if x.is_exact else [f(e) for e in x.interval()]
    spread: Any = 0.0
    if ends:
        spread = np.where(np.isinf(x.radius), np.inf, np.max([np.abs(e - value) for e in ends], axis=0))
    relative: Any = elementary(name, x.of)
    infinite = np.isinf(x.value)
    if infinite.any():
        relative = np.where(infinite, 0.0, relative)
    return rounding_bound(x.of, value, spread, (x,), lambda: ends or [value], relative=relative)


@implements(np.tanh)
def tanh(x: Bounded) -> Bounded:
    """The hyperbolic tangent, by its values at the ends of the interval."""
    return monotone("tanh", np.tanh, x)


def erf_array(x: Array) -> Floats:
    """The error function in float64."""
    x = np.asarray(x, np.float64)
    return np.fromiter(map(math.erf, x.ravel().tolist()), np.float64, x.size).reshape(x.shape)


@implements("erf")
def erf(x: Bounded) -> Bounded:
    """The error function, by its values at the ends of the interval."""
    return monotone("erf", erf_array, x)


@implements(np.power)
def power(a: Any, b: Any) -> Bounded:
    """Monotone in either operand where the base is positive; other bases are for exact integer exponents."""
    a, b = coerce(a, b)
    value = raised(a.value, b.value)
    logs = np.abs(b.value * np.log(np.abs(a.value)))
    relative = elementary("power", a.of) * (1 + np.where(np.isfinite(logs), logs, 0.0))
    if a.is_exact and b.is_exact:
        return rounding_bound(a.of, value, 0.0, (a, b), lambda: [value], relative=relative)
    low, high = a.interval()
    whole = (b.radius == 0) & (np.rint(b.value) == b.value)
    rising = b.interval()[0] > 0
    exact = (a.radius == 0) & (b.radius == 0) & ((a.value != 0) | rising)
    # from 0 on, only a pole is in the way; below 0 only an exact whole exponent has a value
    known = exact | (low > 0) | ((low == 0) & rising) | (whole & ((high < 0) | rising))
    never = (high < 0) & (b.radius == 0) & ~whole
    corners = [np.where(known, c, np.nan) for c in _pairs(raised, a, b)]
    corners.append(np.where((low < 0) & (high > 0), np.where(known, 0.0, np.nan), corners[0]))
    spread = np.max([np.abs(c - value) for c in corners], axis=0)
    base = Bounded(np.broadcast_to(a.value, value.shape), np.where(known | never, a.radius, np.inf), a.of)
    return rounding_bound(a.of, value, np.where(exact, 0.0, spread), (base, b, a), lambda: corners, relative=relative)


# --- exact -------------------------------------------------------------------------------------------------------


def mirrored(x: Bounded) -> Bounded:
    """The intervals reflected at zero: numbers on the real line, of which no dtype is asked to hold them."""
    return Bounded(-x.value, 0 if x.is_exact else x.radius, x.of)


@implements(np.negative)
def negative(x: Bounded) -> Bounded:
    """-x, exact in a float dtype; of integer dtypes, anything goes where it may wrap."""
    if x.of.is_integer:  # which wraps: 0 - x for unsigned, the least number for itself
        if x.is_exact:
            return Bounded(np.negative(x.raw.astype(x.of.numpy)), 0, x.of)
        wraps = (x.value + x.radius > 0) if x.of.kind == "uint" else x.value - x.radius <= float(x.of.min)
        return Bounded(-x.value, np.where(wraps, np.inf, x.radius), x.of)
    made = mirrored(x)
    made.terms = x.terms
    return made


@implements(np.positive)
def positive(x: Bounded) -> Bounded:
    """The operand itself."""
    return x


@implements(np.absolute)
def absolute(x: Bounded) -> Bounded:
    """|x|; of signed integers, anything goes where the least number, which stays itself, is in the interval."""
    if x.is_exact:
        return Bounded(np.abs(x.raw if x.of.is_float else x.raw.astype(x.of.numpy)), 0, x.of)
    out = not_below_zero(Bounded(np.abs(x.value), x.radius, x.of))
    if x.of.kind != "int":
        return out
    wraps = x.value - x.radius <= float(x.of.min)  # the least number stays itself
    return Bounded(out.value, np.where(wraps, np.inf, out.radius), x.of)


def _larger(a: Bounded, b: Bounded) -> Bounded:
    value = np.maximum(a.value, b.value)
    if a.is_exact and b.is_exact:
        zero = value == 0
        if zero.any():  # -0 is below +0, which NumPy leaves open
            value = np.where(zero, np.where(np.signbit(a.value) & np.signbit(b.value), -0.0, 0.0), value)
        return Bounded(value, 0, a.of)
    (a_low, a_high), (b_low, b_high) = a.interval(), b.interval()
    off = np.maximum(np.maximum(a_high, b_high) - value, value - np.maximum(a_low, b_low))
    off = np.minimum(np.maximum(a.radius, b.radius), off * (1 + 4 * U64) + 4 * U64 * np.abs(value))
    # where one is greater for certain, its radius counts; otherwise what either may reach
    radius = np.where(a_low >= b_high, a.radius, np.where(b_low >= a_high, b.radius, off))
    radius = np.where(np.isinf(a.radius) | np.isinf(b.radius), np.inf, np.nan_to_num(radius, nan=0.0, posinf=np.inf))
    return Bounded(value, radius, a.of)


@implements(np.maximum)
def maximum(a: Any, b: Any) -> Bounded:
    """The larger of two, exact on exact operands; NaN where one is NaN."""
    if is_same(a, b):
        return positive(a)
    return _larger(*coerce(a, b))


@implements(np.minimum)
def minimum(a: Any, b: Any) -> Bounded:
    """The smaller of two, as `maximum` of their negations."""
    if is_same(a, b):
        return positive(a)
    a, b = coerce(a, b)
    return mirrored(_larger(mirrored(a), mirrored(b)))


@implements(np.clip)
def clip(x: Any, low: Any = None, high: Any = None) -> Any:
    """x, at least `low` and at most `high`; None sets no limit."""
    if low is not None:
        x = maximum(x, low)
    return x if high is None else minimum(x, high)


def _steps(f: Callable[[Any], Any]) -> Callable[[Bounded], Bounded]:
    def rule(x: Bounded) -> Bounded:
        value = f(x.value)
        if x.is_exact:
            return Bounded(value, 0, x.of)
        low, high = map(f, x.interval())
        still = (x.radius == 0) | ~np.isfinite(value) | np.isinf(x.radius)
        # whole numbers up to 2**51 have an exact middle; beyond, a step moves by less than 1
        big = still | (np.abs(value) > 2.0**51)
        radius = np.where(big, np.where(still, x.radius, x.radius + 1), high / 2 - low / 2)
        return Bounded(np.where(big, value, low / 2 + high / 2), radius, x.of)

    return rule


for _step in (np.floor, np.ceil, np.rint, np.trunc, np.sign):
    implements(_step)(_steps(_step))

"""Rules for comparisons and choices: three-valued where the intervals do not decide (specs/semantics.md, "Numbers").

A truth value is the interval [0, 0], [1, 1] or [0, 1] of dtype bool. What is decided everywhere is a plain array.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from assay.semantics.bounding.core import Array, Bounded, coerce, implements, is_same, plain_if_exact
from assay.semantics.dtypes import BOOL

Flags = npt.NDArray[np.bool_]


def truth(certain: Flags, possible: Flags) -> Any:
    """The truth value that is true where `certain`, and false where not `possible`."""
    if (certain == possible).all():
        return np.asarray(certain)
    low, high = np.asarray(certain, np.float64), np.asarray(possible, np.float64)
    return Bounded((low + high) / 2, (high - low) / 2, BOOL)


def certain_and_possible(x: Any) -> tuple[Flags, Flags]:
    """Where a truth value is true for certain, and where it may be."""
    if not isinstance(x, Bounded):
        flags: Flags = np.asarray(x, bool)
        return flags, flags
    return x.value - x.radius > 0.5, x.value + x.radius > 0.5


def _compare(less: bool, equal: bool) -> Callable[[Any, Any], Any]:
    """`a < b`, `a <= b`, or, where not `less`, `a == b`. NaN compares false; a vacuous interval may be NaN."""

    def rule(a: Any, b: Any) -> Any:
        a, b = coerce(a, b)
        if is_same(a, b):
            number = logical_not(isnan(a))  # all that x == x and x <= x ask
            return number if equal else truth(*(np.zeros(a.shape, bool),) * 2)
        (a_low, a_high), (b_low, b_high) = a.interval(), b.interval()
        if not less:
            certain = (a_low == a_high) & (b_low == b_high) & (a_low == b_low)
            possible = (a_low <= b_high) & (b_low <= a_high)
        elif equal:
            certain, possible = a_high <= b_low, a_low <= b_high
        else:
            certain, possible = a_high < b_low, a_low < b_high
        if not (a.is_exact and b.is_exact):
            loose = np.isinf(a.radius) | np.isinf(b.radius)
            # the end of a vacuous interval is inf or NaN already, and decides nothing
            certain, possible = certain & ~loose, possible | loose
        return truth(np.asarray(certain), np.asarray(possible))

    return rule


less = implements(np.less)(_compare(True, False))
less_equal = implements(np.less_equal)(_compare(True, True))
equal = implements(np.equal)(_compare(False, True))


@implements(np.greater)
def greater(a: Any, b: Any) -> Any:
    """`b < a`, by the rule for `less`."""
    return less(b, a)


@implements(np.greater_equal)
def greater_equal(a: Any, b: Any) -> Any:
    """`b <= a`, by the rule for `less_equal`."""
    return less_equal(b, a)


@implements(np.not_equal)
def not_equal(a: Any, b: Any) -> Any:
    """The negation of `equal`."""
    return logical_not(equal(a, b))


@implements(np.isnan)
def isnan(x: Bounded) -> Any:
    """True where the value is NaN for certain, undecided where the radius is infinite."""
    return truth(np.isnan(x.value) & ~np.isinf(x.radius), np.isnan(x.value) | np.isinf(x.radius))


@implements(np.logical_not, np.invert)
def logical_not(x: Any) -> Any:
    """Not, of three truth values; undecided stays undecided."""
    certain, possible = certain_and_possible(x)
    return truth(~possible, ~certain)


@implements(np.logical_and, np.bitwise_and)
def logical_and(a: Any, b: Any) -> Any:
    """And, of three truth values: decided where one operand is false or both are true."""
    (a_sure, a_may), (b_sure, b_may) = certain_and_possible(a), certain_and_possible(b)
    return truth(a_sure & b_sure, a_may & b_may)


@implements(np.logical_or, np.bitwise_or)
def logical_or(a: Any, b: Any) -> Any:
    """Or, of three truth values: decided where one operand is true or both are false."""
    (a_sure, a_may), (b_sure, b_may) = certain_and_possible(a), certain_and_possible(b)
    return truth(a_sure | b_sure, a_may | b_may)


@implements(np.logical_xor, np.bitwise_xor)
def logical_xor(a: Any, b: Any) -> Any:
    """Exclusive or, of three truth values: undecided where an operand is, unless both are one array."""
    if is_same(a, b):
        return np.zeros(a.shape, bool)
    (a_sure, a_may), (b_sure, b_may) = certain_and_possible(a), certain_and_possible(b)
    return truth((a_sure & ~b_may) | (b_sure & ~a_may), (a_may & ~b_sure) | (b_may & ~a_sure))


def hull(a: Bounded, b: Bounded, where: Array) -> Bounded:
    """`a`, widened where asked so that its intervals hold those of `b` too. Unlike infinities leave nothing known,
    and of unlike zeros the sign is free."""
    (a_low, a_high), (b_low, b_high) = a.interval(), b.interval()
    low, high = np.minimum(a_low, b_low), np.maximum(a_high, b_high)
    middle = low / 2 + high / 2
    half = np.maximum(high - middle, middle - low) * (1 + 2.0**-50)
    same = ((a.value == b.value) & (a.radius == b.radius)) | (np.isnan(a.value) & np.isnan(b.value))
    known = np.isfinite(half)
    value = np.where(same | ~where, a.value, np.where(known, middle, 0.0))
    radius = np.where(same | ~where, a.radius, np.where(known, half, np.inf))
    made = Bounded(value, radius, a.of)
    zeros = where & (value == 0) & (radius == 0) & (np.signbit(a.value) != np.signbit(b.value))
    if zeros.any():
        made.free = zeros
    return made


@implements(np.where)
def where(condition: Any, a: Any, b: Any) -> Any:
    """The chosen branch; where the condition is undecided, an interval that holds both."""
    if not isinstance(a, Bounded) and not isinstance(b, Bounded):
        a = Bounded.exact(a)
    a, b = coerce(a, b)
    certain, possible = certain_and_possible(condition)
    if is_same(a, b) and np.shape(certain) == a.shape:
        return plain_if_exact(a)
    value = np.where(certain, a.value, b.value)
    if a.is_exact and b.is_exact:
        chosen = Bounded(value, 0, a.of)
    else:
        chosen = Bounded(value, np.where(certain, a.radius, b.radius), a.of)
    undecided = possible & ~certain
    if not undecided.any():
        return plain_if_exact(chosen)
    shape = value.shape
    other = Bounded(np.broadcast_to(a.value, shape), np.broadcast_to(a.radius, shape), a.of)
    return plain_if_exact(hull(chosen, other, np.broadcast_to(undecided, shape)))

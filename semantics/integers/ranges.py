"""Interval analysis of unbounded integers: where the value of one operation lies (specs/semantics.md, "Integers").

Nothing wraps here. Who works with numbers of a dtype compares a range with the dtype's (`fits_dtype`), step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import TypeAlias

from assay.semantics.dtypes import DType

Interval: TypeAlias = tuple[int, int]
"""A least and a greatest value."""

Range: TypeAlias = tuple[int | None, int | None]
"""A least and a greatest value; None: there is none, or none is known."""

EVERYTHING: Range = (None, None)

OPPOSITE = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}
"""The comparison that holds exactly where one does not."""


def dtype_range(of: DType) -> Interval:
    """All numbers of an integer dtype, 0 and 1 for bool."""
    return int(of.min), int(of.max)


def fits_dtype(found: Range, of: DType) -> bool:
    """Whether a range lies in a dtype."""
    low, high = found
    return low is not None and high is not None and of.min <= low and high <= of.max


def closed(found: Range) -> Interval | None:
    """A range with two ends; None where one is missing."""
    low, high = found
    return None if low is None or high is None else (low, high)


def at_least(found: Range, value: int) -> bool:
    """Whether no number of a range is less than `value`."""
    return found[0] is not None and found[0] >= value


def at_most(found: Range, value: int) -> bool:
    """Whether no number of a range is more than `value`."""
    return found[1] is not None and found[1] <= value


def union(a: Range, b: Range) -> Range:
    """The least range around both."""
    (low, high), (least, most) = a, b
    return (
        None if low is None or least is None else min(low, least),
        None if high is None or most is None else max(high, most),
    )


def meet(a: Range, b: Range) -> Range:
    """What lies in both; the least value is above the greatest where nothing does."""
    (low, high), (least, most) = a, b
    return (
        least if low is None else low if least is None else max(low, least),
        most if high is None else high if most is None else min(high, most),
    )


def plus(a: Range, b: Range) -> Range:
    """Where a sum lies."""
    (low, high), (least, most) = a, b
    return (
        None if low is None or least is None else low + least,
        None if high is None or most is None else high + most,
    )


def scaled(a: Range, factor: int) -> Range:
    """Where a multiple lies."""
    low, high = a if factor >= 0 else a[::-1]
    if factor == 0:
        return 0, 0
    return None if low is None else low * factor, None if high is None else high * factor


def times(a: Range, b: Range) -> Range:
    """Where a product lies."""
    corners = [_product(x, y) for x in _ends(a) for y in _ends(b)]
    low, high = min(corners), max(corners)
    return None if low == -inf else int(low), None if high == inf else int(high)


def _ends(a: Range) -> tuple[float, float]:
    return -inf if a[0] is None else a[0], inf if a[1] is None else a[1]


def _product(x: float, y: float) -> float:
    """A product of ends; an endless one times 0 is 0. Numbers stay integers, however large."""
    if isinstance(x, int) and isinstance(y, int):
        return x * y
    return 0 if x == 0 or y == 0 else inf if (x > 0) == (y > 0) else -inf


def quotient(a: Range, b: Range, down: bool = True) -> Range:
    """Where a quotient by a divisor of 1 or more lies, rounded down or else to zero."""

    def over(x: int, y: int | None) -> int:
        if y is None:
            return -1 if down and x < 0 else 0
        return x // y if down or x >= 0 else -(-x // y)

    return _towards_zero(a, b, over)


def shifted(a: Range, b: Range) -> Range:
    """Where a number lies that is shifted right by 0 or more."""
    return _towards_zero(a, b, lambda x, y: x >> y if y is not None else -1 if x < 0 else 0)


def _towards_zero(a: Range, b: Range, by: Callable[[int, int | None], int]) -> Range:
    """Where `by` lies, which grows with its first operand, and nears 0 as the second grows, without end if None."""
    (low, high), (least, most) = a, b
    return (
        None if low is None else by(low, least if low < 0 else most),
        None if high is None else by(high, most if high < 0 else least),
    )


def remainder(a: Range, b: Range, down: bool = True) -> Range:
    """Where the remainder that belongs to `quotient` lies."""
    last = None if b[1] is None else b[1] - 1
    if down and not at_least(a, 0):
        return 0, last
    if down:
        return a if b[0] is not None and at_most(a, b[0] - 1) else meet((0, last), (0, a[1]))
    return meet((None if last is None else -last, last), union(a, (0, 0)))


def absolute(a: Range) -> Range:
    """Where the distance from 0 lies."""
    if at_least(a, 0):
        return a
    low, high = union(a, scaled(a, -1))
    return (0, high) if not at_most(a, 0) else scaled(a, -1)


def reach(op: str, args: Sequence[Range]) -> Range:
    """Where the result of an operation of `OPERATIONS` on integers lies before any wrapping.

    The condition of a select is a range in 0 to 1. A divisor that may be 0 or more counts as 1 or more, for the
    operation traps by 0. Nothing is known of other divisors, of shifts by less than 0, and of what has no rule here.
    """
    a, b = args[0], args[-1]
    match op:
        case "add":
            return plus(a, b)
        case "sub":
            return plus(a, scaled(b, -1))
        case "mul":
            return times(a, b)
        case "neg":
            return scaled(a, -1)
        case "abs":
            return absolute(a)
        case "min":
            return union(a, b)[0], meet(a, b)[1]
        case "max":
            return meet(a, b)[0], union(a, b)[1]
        case "select":
            return args[1] if a == (1, 1) else b if a == (0, 0) else union(args[1], b)
        case "floordiv" | "truncdiv" if at_least(b, 0) and not at_most(b, 0):
            return quotient(a, meet(b, (1, None)), op == "floordiv")
        case "floormod" | "truncmod" if at_least(b, 0) and not at_most(b, 0):
            return remainder(a, meet(b, (1, None)), op == "floormod")
        case "bitand" if at_least(a, 0) or at_least(b, 0):
            return 0, meet(*(x if at_least(x, 0) else EVERYTHING for x in (a, b)))[1]
        case "shl" if (by := closed(b)) is not None and 0 <= by[0] and by[1] < 64:
            return times(a, (1 << by[0], 1 << by[1]))
        case "shr" if at_least(b, 0):
            return shifted(a, b)
        case _:
            return EVERYTHING


def compare(op: str, difference: Range) -> bool | None:
    """What a comparison says of two numbers whose difference lies there; None where it may say either."""
    match op:
        case "lt":
            return True if at_most(difference, -1) else False if at_least(difference, 0) else None
        case "le":
            return True if at_most(difference, 0) else False if at_least(difference, 1) else None
        case "eq":
            apart = at_most(difference, -1) or at_least(difference, 1)
            return True if difference == (0, 0) else False if apart else None
        case _:  # of "gt", "ge" and "ne" the opposite is above
            opposite = compare(OPPOSITE[op], difference)
            return None if opposite is None else not opposite

"""Functions of numbers to any number of digits, from series and integers alone: what the routines are measured
against."""

from __future__ import annotations

from decimal import Context, Decimal, localcontext
from functools import cache

LONG = Context(prec=460)
"""Digits that hold the largest float64 in units of 2 * pi, and sixty more."""
SHORT = Context(prec=70)


def arctangent_of_inverse(n: int, digits: int) -> int:
    """atan(1 / n) * 10**digits, for whole n above 1."""
    term = total = 10**digits // n
    k, sign = 1, -1
    while term:
        term //= n * n
        k += 2
        total += sign * (term // k)
        sign = -sign
    return total


@cache
def pi() -> Decimal:
    """Machin's formula."""
    digits = LONG.prec + 10
    with localcontext(LONG):
        return Decimal(16 * arctangent_of_inverse(5, digits) - 4 * arctangent_of_inverse(239, digits)).scaleb(-digits)


def reduced(x: Decimal) -> Decimal:
    """x less a multiple of 2 * pi; between -pi and pi."""
    with localcontext(LONG):
        turns = (x / (2 * pi())).to_integral_value()
        return x - turns * 2 * pi()


def _series(first: Decimal, square: Decimal, start: int) -> Decimal:
    term = total = first
    k = start
    while abs(term) > abs(first) * Decimal("1e-80") and abs(term) > Decimal("1e-800"):
        term *= -square / ((k + 1) * (k + 2))
        total += term
        k += 2
    return total


def sin(x: Decimal) -> Decimal:
    """Near a multiple of pi the angle that is left is small, so that nothing cancels."""
    r = reduced(x)
    with localcontext(SHORT):
        if abs(r) > Decimal("0.8"):
            with localcontext(LONG):
                r = (pi() - abs(r)).copy_sign(r)
        if abs(r) <= Decimal("0.8"):
            return _series(+r, r * r, 1)
        with localcontext(LONG):
            rest = pi() / 2 - abs(r)
        return _series(Decimal(1), rest * rest, 0).copy_sign(r)


def cos(x: Decimal) -> Decimal:
    with localcontext(LONG):
        return sin(reduced(x) + pi() / 2)


def tan(x: Decimal) -> Decimal:
    with localcontext(SHORT):
        return sin(x) / cos(x)


def atan(x: Decimal) -> Decimal:
    with localcontext(SHORT):
        if abs(x) < Decimal("1e-40"):
            return x - x * x * x / 3
        if abs(x) > 1:
            return (pi() / 2).copy_sign(x) - atan(1 / x)
        halvings = 0
        while abs(x) > Decimal("0.05"):
            x = x / (1 + (1 + x * x).sqrt())
            halvings += 1
        power = total = x
        k = 1
        while abs(power) > abs(x) * Decimal("1e-75"):
            power *= -x * x
            k += 2
            total += power / k
        return total * 2**halvings


def asin(x: Decimal) -> Decimal:
    with localcontext(LONG):
        below = ((1 - x) * (1 + x)).sqrt()
        if below == 0:
            return (pi() / 2).copy_sign(x)
        ratio = x / below
    return atan(ratio)


def acos(x: Decimal) -> Decimal:
    with localcontext(LONG):
        if x == -1:
            return pi()
        ratio = ((1 - x) / (1 + x)).sqrt()
    with localcontext(SHORT):
        return 2 * atan(ratio)


def atan2(y: Decimal, x: Decimal) -> Decimal:
    """For x that is not 0."""
    with localcontext(LONG):
        angle = atan(y / x)
        return angle if x > 0 else angle + pi().copy_sign(y)


def sinh(x: Decimal) -> Decimal:
    with localcontext(SHORT):
        if abs(x) < Decimal("0.1"):
            return _series(+x, -x * x, 1)
        return (x.exp() - (-x).exp()) / 2


def cosh(x: Decimal) -> Decimal:
    with localcontext(SHORT):
        return (x.exp() + (-x).exp()) / 2


def _log1p(t: Decimal) -> Decimal:
    """By 2 atanh(t / (2 + t)) where t is small, so that nothing cancels."""
    if t > Decimal("0.1"):
        return (1 + t).ln()
    s = t / (2 + t)
    power = total = s
    k = 1
    while abs(power) > abs(s) * Decimal("1e-80"):
        power *= s * s
        k += 2
        total += power / k
    return 2 * total


def asinh(x: Decimal) -> Decimal:
    with localcontext(SHORT):
        a = abs(x)
        return _log1p(a + a * a / (1 + (a * a + 1).sqrt())).copy_sign(x)


def acosh(x: Decimal) -> Decimal:
    with localcontext(SHORT):
        above = x - 1
        return _log1p(above + (2 * above + above * above).sqrt())


def atanh(x: Decimal) -> Decimal:
    with localcontext(SHORT):
        return (_log1p(2 * abs(x) / (1 - abs(x))) / 2).copy_sign(x)

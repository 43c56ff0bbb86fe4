"""sin, cos, tan and their inverses as programs of exact operations (rule M10; specs/semantics.md, "Transcendental
functions").

The reduction of an angle is exact to 2**-126 of a quarter turn for every float64 (Payne and Hanek's): the operand's 53
bits are multiplied, in integers, by those digits of 2/pi that matter for its exponent.
"""

from __future__ import annotations

from collections.abc import Iterator

from assay.semantics.dtypes import FLOAT64
from assay.semantics.scalar.expression import Expr, Number, Var, apply, cast, const, select
from assay.semantics.scalar.routine import (
    INFINITY,
    MANTISSA,
    Routine,
    RoutineBuilder,
    bits_of,
    hexadecimal,
    high_part,
    is_nan,
    is_negative,
    polynomial,
)

# sin(r) = r + r*z*p(z), z = r*r, |r| <= pi/4
SIN = hexadecimal(
    "-0x1.5555555555555p-3 0x1.1111111111110p-7 -0x1.a01a01a019934p-13 0x1.71de3a546026cp-19 -0x1.ae64541204b67p-26"
    " 0x1.61217e72d7987p-33 -0x1.ab177a0c84525p-41"
)
# cos(r) = 1 - z/2 + z*z*p(z), z = r*r, |r| <= pi/4
COS = hexadecimal(
    "0x1.5555555555555p-5 -0x1.6c16c16c16c16p-10 0x1.a01a01a019d09p-16 -0x1.27e4fb7712a4ap-22 0x1.1eed8deb417a1p-29"
    " -0x1.9394b98467314p-37 0x1.ab780aa680d15p-45"
)
# atan(t) = t + t*z*p(z), z = t*t, |t| <= 7/16
ATAN = hexadecimal(
    "-0x1.5555555555555p-2 0x1.99999999998c3p-3 -0x1.2492492485320p-3 0x1.c71c71bd16ef5p-4 -0x1.745d1548ee7e9p-4"
    " 0x1.3b13757174d78p-4 -0x1.110c97113cca0p-4 0x1.e17007cd876a1p-5 -0x1.ab569ae6cc23cp-5 0x1.6ff4d8900ada6p-5"
    " -0x1.0f4591bb88ed6p-5 0x1.e3a2a666933c0p-7"
)
# asin(s) = s + s*z*p(z), z = s*s, |s| <= 1/2
ASIN = hexadecimal(
    "0x1.5555555555556p-3 0x1.3333333332ec4p-4 0x1.6db6db6e3292fp-5 0x1.f1c71c1d4a989p-6 0x1.6e8bb1d8959afp-6"
    " 0x1.1c4d343f90fbdp-6 0x1.c9cf375c11fe9p-7 0x1.78246f20aeab6p-7 0x1.524ea91eae649p-7 0x1.653a8c41629f9p-8"
    " 0x1.1d6617456310ep-6 -0x1.e7a255630b024p-7 0x1.d7818b67b4f5dp-6"
)
QUARTER_TURN, QUARTER_TURN_LOW = hexadecimal("0x1.921fb54442d18p+0 0x1.1a62633145c07p-54")
ATAN_AT = {
    0.5: hexadecimal("0x1.dac670561bb4fp-2 0x1.a2b7f222f65e2p-56"),
    1.0: hexadecimal("0x1.921fb54442d18p-1 0x1.1a62633145c07p-55"),
    1.5: hexadecimal("0x1.f730bd281f69bp-1 0x1.007887af0cbbdp-56"),
}
"""atan at some points, in two parts."""

DIGITS = tuple(
    int(word, 16)
    for word in (
        "a2f9836e 4e441529 fc2757d1 f534ddc0 db629599 3c439041 fe5163ab debbc561 b7246e3a 424dd2e0 06492eea 09d1921c"
        " fe1deb1c b129a73e e88235f5 2ebb4484 e99c7026 b45f7e41 3991d639 835339f4 9c845f8b bdf9283b 1ff897ff de05980f"
        " ef2f118b 5a0a6d1f 6d367ecf 27cb09b7 4f463f66 9e5fea2d 7527bac7 ebe5f17b 3d0739f7 8a5292ea 6bfb5fb1 1f8d5d08"
        " 56033046"
    ).split()
)
"""2/pi in base 2**32, from the digit of weight 2**-32 on."""
BASE = 32
LOWEST = 2**BASE - 1
KEPT = 5
"""How many digits of the fraction of a number of quarter turns are kept."""


def _mask(x: Number, mask: int) -> Expr:
    return apply("bitand", x, mask)


def _window(b: RoutineBuilder, index: Expr, size: int) -> list[Expr]:
    """So many digits of 2/pi from `index` on, 0 to 32: with each bit of the index half of the choice is made."""
    row: list[Expr] = [const(d) for d in (0, 0, 0, *DIGITS)]
    for level in (32, 16, 8, 4, 2, 1):
        taken = b.let(f"bit_{level}", apply("ne", _mask(index, level), 0))
        count = size + level - 1
        # from 32 on the rest of the index is 0
        row = [
            b.let(f"digit_{level}_{j}", select(taken, row[j + level], row[j])) if level < 32 or j < size else row[j]
            for j in range(min(count, len(row)))
        ]
    return row


def _reduced(b: RoutineBuilder, x: Expr) -> tuple[Var, Var, Var]:
    """r, its low part and n with |x| = n * pi/2 + r + low and |r| <= pi/4; n modulo 4, as int64. Finite x."""
    a = b.let("a", apply("abs", x))
    near = b.let("near", a < 0.5)
    large = apply("and", a >= 0.5, a < INFINITY)
    bits = b.let("bits", bits_of(b.let("safe", select(large, a, 1.0))))
    # |x| = m * 2**s * 2**(32 * i - 64), as digits m_0, m_1, m_2 of m * 2**s
    place = b.let("place", apply("shr", bits, 52) - 1011)
    i = b.let("i", apply("shr", place, 5))
    s = b.let("s", _mask(place, 31))
    m = b.let("m", apply("bitor", _mask(bits, MANTISSA), 1 << 52))
    low = b.let("m_low", apply("shl", _mask(m, LOWEST), s))
    high = b.let("m_high", apply("shr", low, BASE) + apply("shl", apply("shr", m, BASE), s))
    parts = [
        b.let("m_0", _mask(low, LOWEST)),
        b.let("m_1", _mask(high, LOWEST)),
        b.let("m_2", apply("shr", high, BASE)),
    ]
    digits = _window(b, i, KEPT + len(parts))
    columns: list[list[Expr]] = [[] for _ in range(KEPT + 1)]  # the whole turns, then the digits of the fraction
    for q in range(KEPT + 1):
        for k, part in enumerate(parts):
            product = b.let(f"product_{q}_{k}", part * digits[q + k])  # modulo 2**64
            columns[q].append(_mask(product, LOWEST))
            if q > 0:
                columns[q - 1].append(_mask(apply("shr", product, BASE), LOWEST))
    fraction: list[Var] = []
    carry: Number = 0
    for q in range(KEPT, 0, -1):
        total = b.let(f"total_{q}", _sum(columns[q]) + carry)
        fraction.insert(0, b.let(f"f_{q}", _mask(total, LOWEST)))
        carry = b.let(f"carry_{q}", apply("shr", total, BASE))
    up = b.let("up", apply("shr", fraction[0], BASE - 1))  # to the nearest whole number
    n = b.let("n", select(near, const(0), _mask(_sum(columns[0]) + carry + up, 3)))
    # the fraction, from -1/2 to 1/2, as a sum of two: each step is exact
    top = b.let("top", cast(fraction[0] - apply("shl", up, BASE), FLOAT64) * 2.0**-BASE)
    rest: Number = 0.0
    for q in range(2, KEPT + 1):
        digit = b.let(f"part_{q}", cast(fraction[q - 1], FLOAT64) * 2.0 ** (-BASE * q))
        both = b.let(f"top_{q}", top + digit)
        rest = b.let(f"rest_{q}", (digit - (both - top)) + rest)
        top = both
    assert isinstance(rest, Expr)
    # times pi/2
    t_high = b.let("t_high", high_part(top))
    t_low = b.let("t_low", top - t_high)
    p_high = _leading(QUARTER_TURN)
    p_low = QUARTER_TURN - p_high
    r = b.let("r_large", top * QUARTER_TURN)
    lost = ((t_high * p_high - r) + t_high * p_low + t_low * p_high) + t_low * p_low
    tail = b.let("r_tail", lost + (top * QUARTER_TURN_LOW + rest * QUARTER_TURN))
    return b.let("r", select(near, a, r)), b.let("r_low", select(near, const(0.0, FLOAT64), tail)), n


def _sum(terms: list[Expr]) -> Expr:
    total = terms[0]
    for t in terms[1:]:
        total = total + t
    return total


def _leading(x: float) -> float:
    """The leading 26 bits."""
    scaled = x * 2.0**25
    return float(int(scaled)) * 2.0**-25


def _sin_cos(b: RoutineBuilder, x: Expr) -> tuple[Var, Var, Var]:
    """The sine and cosine of the reduced angle, and the quadrant."""
    r, low, n = _reduced(b, x)
    z = b.let("z", r * r)
    sine = b.let("sine", r + (r * (z * polynomial(SIN, z)) + low * (1.0 - 0.5 * z)))
    half = b.let("half", 0.5 * z)
    first = b.let("first", 1.0 - half)
    cosine = b.let("cosine", first + (((1.0 - first) - half) + (z * z * polynomial(COS, z) - r * low)))
    return sine, cosine, n


def _odd(n: Expr) -> Expr:
    return apply("ne", _mask(n, 1), 0)


def _signed(b: RoutineBuilder, negative: Expr, magnitude: Expr) -> Expr:
    value = b.let("value", magnitude)
    return select(negative, -value, value)


def _finite_or_nan(x: Expr, result: Expr) -> Expr:
    """`result` where x is finite; else NaN."""
    return select(apply("lt", apply("abs", x), INFINITY), result, x - x)


def _sin_routine() -> Routine:
    b = RoutineBuilder("x")
    (x,) = b.params
    sine, cosine, n = _sin_cos(b, x)
    negative = b.let("negative", apply("ne", apply("ne", _mask(n, 2), 0), is_negative(x)))
    y = _signed(b, negative, select(_odd(n), cosine, sine))
    return b.returns("sin", _finite_or_nan(x, y), 1.0, "sine of x radians; NaN for an infinity")


def _cos_routine() -> Routine:
    b = RoutineBuilder("x")
    (x,) = b.params
    sine, cosine, n = _sin_cos(b, x)
    y = _signed(b, apply("ne", _mask(n + 1, 2), 0), select(_odd(n), sine, cosine))
    return b.returns("cos", _finite_or_nan(x, y), 1.0, "cosine of x radians; NaN for an infinity")


def _tan_routine() -> Routine:
    b = RoutineBuilder("x")
    (x,) = b.params
    sine, cosine, n = _sin_cos(b, x)
    odd = b.let("odd", _odd(n))
    y = _signed(b, apply("ne", odd, is_negative(x)), select(odd, cosine, sine) / select(odd, sine, cosine))
    return b.returns("tan", _finite_or_nan(x, y), 2.5, "tangent of x radians; NaN for an infinity")


def _arctangent(b: RoutineBuilder, a: Expr) -> Var:
    """atan(a) for a >= 0: atan(c) + atan((a - c) / (1 + a*c)) for the c that is near."""
    steps: list[tuple[float, Expr, Expr, tuple[float, ...]]] = [
        (7 / 16, a, const(1.0, FLOAT64), (0.0, 0.0)),
        (11 / 16, 2.0 * a - 1.0, 2.0 + a, ATAN_AT[0.5]),
        (19 / 16, a - 1.0, 1.0 + a, ATAN_AT[1.0]),
        (39 / 16, a - 1.5, 1.0 + 1.5 * a, ATAN_AT[1.5]),
    ]
    top: Expr = const(-1.0, FLOAT64)
    bottom: Expr = a
    high: Expr = const(QUARTER_TURN, FLOAT64)
    low: Expr = const(QUARTER_TURN_LOW, FLOAT64)
    for k, (limit, numerator, denominator, at) in reversed(list(enumerate(steps))):
        here = b.let(f"below_{k}", a < limit)
        top, bottom = select(here, numerator, top), select(here, denominator, bottom)
        high, low = select(here, const(at[0], FLOAT64), high), select(here, const(at[1], FLOAT64), low)
    t = b.let("t", top / bottom)
    z = b.let("z", t * t)
    return b.let("angle", high + (t + (t * (z * polynomial(ATAN, z)) + low)))


def _atan_routine() -> Routine:
    b = RoutineBuilder("x")
    (x,) = b.params
    y = _arctangent(b, b.let("a", apply("abs", x)))
    return b.returns("atan", select(is_nan(x), x, select(is_negative(x), -y, y)), 1.0, "the angle whose tangent is x")


def _atan2_routine() -> Routine:
    b = RoutineBuilder("y", "x")
    y, x = b.params
    a, c = b.let("size_y", apply("abs", y)), b.let("size_x", apply("abs", x))
    alike = apply("and", apply("eq", a, c), apply("or", apply("eq", a, 0.0), apply("eq", a, INFINITY)))
    zero = apply("eq", a, 0.0)
    ratio = select(zero, const(0.0, FLOAT64), select(alike, const(1.0, FLOAT64), a / c))
    angle = _arctangent(b, b.let("ratio", ratio))
    turned = 2.0 * QUARTER_TURN - (angle - 2.0 * QUARTER_TURN_LOW)
    size = b.let("size", select(is_negative(x), turned, angle))
    signed = select(is_negative(y), -size, size)
    unordered = apply("or", is_nan(x), is_nan(y))
    return b.returns("atan2", select(unordered, x + y, signed), 2.0, "the angle of the point (x, y), from -pi to pi")


def _arcsine_parts(b: RoutineBuilder, x: Expr) -> tuple[Var, Var, Var, Var, Var, Var]:
    """Near 0 or not, |x|, s, s*s*p(s*s), and the two parts of s: of |x| near 0, else of sqrt((1 - |x|) / 2)."""
    a = b.let("a", apply("abs", x))
    near = b.let("near", a < 0.5)
    z = b.let("z", select(near, a * a, (1.0 - a) * 0.5))
    s = b.let("s", select(near, a, apply("sqrt", z)))
    p = b.let("p", z * polynomial(ASIN, z))
    f = b.let("f", high_part(s))
    total = b.let("total", s + f)
    c = b.let("c", (z - f * f) / select(apply("eq", total, 0.0), const(1.0, FLOAT64), total))
    return near, a, s, p, f, c


def _asin_routine() -> Routine:
    b = RoutineBuilder("x")
    (x,) = b.params
    near, a, s, p, f, c = _arcsine_parts(b, x)
    eighth = 0.5 * QUARTER_TURN
    outer = eighth - ((2.0 * (s * p) - (QUARTER_TURN_LOW - 2.0 * c)) - (eighth - 2.0 * f))
    y = b.let("y", select(near, a + a * p, outer))
    return b.returns("asin", select(is_nan(x), x, select(is_negative(x), -y, y)), 1.5, "the angle whose sine is x")


def _acos_routine() -> Routine:
    b = RoutineBuilder("x")
    (x,) = b.params
    near, _, s, p, f, c = _arcsine_parts(b, x)
    inner = QUARTER_TURN - (x - (QUARTER_TURN_LOW - x * p))
    right = 2.0 * (f + (s * p + c))
    left = 2.0 * QUARTER_TURN - 2.0 * (s + (s * p - QUARTER_TURN_LOW))
    y = select(near, inner, select(is_negative(x), left, right))
    return b.returns("acos", select(is_nan(x), x, y), 1.5, "the angle whose cosine is x")


def trigonometric() -> Iterator[Routine]:
    """The programs of this file."""
    yield from (_sin_routine(), _cos_routine(), _tan_routine(), _asin_routine(), _acos_routine(), _atan_routine())
    yield _atan2_routine()

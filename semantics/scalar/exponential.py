"""Powers and logarithms as programs of exact operations, and the parts of these that others have in them (rule M10;
specs/semantics.md, "Transcendental functions")."""

from __future__ import annotations

from collections.abc import Iterator

from assay.semantics.dtypes import FLOAT64
from assay.semantics.scalar.expression import Expr, Number, Var, apply, cast, const, select
from assay.semantics.scalar.routine import (
    INFINITY,
    MANTISSA,
    NAN,
    Routine,
    RoutineBuilder,
    bits_of,
    clamp,
    hexadecimal,
    high_part,
    is_nan,
    is_negative,
    pattern,
    polynomial,
)

# --- numbers -----------------------------------------------------------------------------------------------------

SMALLEST_NORMAL = 2.0**-1022
ROUNDER = 1.5 * 2.0**52  # adding it rounds to an integer, which then stands in the low bits
LN2_HIGH, LN2_LOW = hexadecimal("0x1.62e42fefa3800p-1 0x1.ef35793c76730p-45")  # 42 bits, so n * LN2_HIGH is exact
ONE_OVER_LN2 = float.fromhex("0x1.71547652b82fep+0")
SQRT_HALF = float.fromhex("0x1.6a09e667f3bcdp-1")

# exp(r) = 1 + r + r*r*p(r), |r| <= ln(2)/2
EXP = hexadecimal(
    "0x1.0000000000000p-1 0x1.5555555555557p-3 0x1.5555555555556p-5 0x1.11111111100dfp-7 0x1.6c16c16c162d6p-10"
    " 0x1.a01a01abe62ddp-13 0x1.a01a01a6d7808p-16 0x1.71de02375656cp-19 0x1.27e4db67b4303p-22 0x1.af4ddd84882fep-26"
    " 0x1.1f72fc730b4ffp-29"
)
# log((1+s)/(1-s)) = 2*s + s*z*p(z), z = s*s, |s| <= (sqrt(2)-1)/(sqrt(2)+1)
LOG = hexadecimal(
    "0x1.5555555555555p-1 0x1.9999999999a38p-2 0x1.2492492476c87p-2 0x1.c71c720160b47p-3 0x1.745cf901605f7p-3"
    " 0x1.3b1c360763b8ap-3 0x1.0fbe83c2cbcf3p-3 0x1.0c04595972ab8p-3"
)
# log((1+s)/(1-s)) = 2/3 * s * (3 + z + z*z*p(z)), z = s*s, s as above
LOG_TAIL = hexadecimal(
    "0x1.3333333333333p-1 0x1.b6db6db6db7b2p-2 0x1.555555552ff8cp-2 0x1.1745d19bf0840p-2 0x1.d89d60bb25922p-3"
    " 0x1.99a52bd708da3p-3 0x1.679d96ac7bbebp-3 0x1.6822d3ff5dac6p-3"
)
TWO_THIRDS_HIGH, TWO_THIRDS_LOW = hexadecimal("0x1.5555550000000p-1 0x1.5555555555555p-27")


# --- parts -------------------------------------------------------------------------------------------------------


def power_of_two(n: Expr) -> Expr:
    """2**n as float64, for int64 n from -1022 to 1023."""
    return apply("float_of", apply("shl", n + 1023, 52))


def exp_part(b: RoutineBuilder, x: Expr, rest: Number = 0.0, *, subnormal: bool) -> Expr:
    """exp(x + rest) for -746 <= x <= 710 and tiny rest; with `subnormal` off, x above -708 and the result finite."""
    rounded = b.let("rounded", x * ONE_OVER_LN2 + ROUNDER)
    k = b.let("k", rounded - ROUNDER)
    n = b.let("n", bits_of(rounded) - pattern(ROUNDER))
    whole = b.let("whole", x - k * LN2_HIGH)  # exact
    low = b.let("low", k * LN2_LOW - rest if isinstance(rest, Expr) else k * LN2_LOW)
    r = b.let("r", whole - low)
    lost = b.let("lost", (whole - r) - low)
    one = b.let("one", 1.0 + r)
    tail = ((r - (one - 1.0)) + lost) + r * r * polynomial(EXP, r)
    e = b.let("e", one + tail)
    if not subnormal:
        return e * power_of_two(n)
    # Two factors, so that neither leaves the normal range and a subnormal result is rounded once.
    half = b.let("half", apply("shr", n + 2048, 1) - 1024)
    return e * power_of_two(half) * power_of_two(n - half)


def _split(b: RoutineBuilder, x: Expr) -> tuple[Var, Var]:
    """k and m with x = 2**k * m and m from sqrt(1/2) to sqrt(2), both float64, for x positive and finite."""
    small = b.let("small", x < SMALLEST_NORMAL)
    scaled = b.let("scaled", select(small, x * 2.0**54, x))
    bits = b.let("bits", bits_of(scaled) + (pattern(1.0) - pattern(SQRT_HALF)))
    exponent = apply("shr", bits, 52) - select(small, const(1023 + 54), const(1023))
    k = b.let("exponent", cast(exponent, FLOAT64))
    m = b.let("mantissa", apply("float_of", apply("bitand", bits, MANTISSA) + pattern(SQRT_HALF)))
    return k, m


def log_part(b: RoutineBuilder, x: Expr) -> Expr:
    """log(x) for x positive and finite."""
    k, m = _split(b, x)
    f = b.let("f", m - 1.0)  # exact
    s = b.let("s", f / (2.0 + f))
    z = b.let("z", s * s)
    # 2*s = f - s*f, and f is exact: what is left to add is small
    half_square = b.let("half_square", 0.5 * f * f)
    less = b.let("less", half_square - s * (half_square + z * polynomial(LOG, z)))
    whole = b.let("whole", k * LN2_HIGH)  # exact
    top = b.let("top", whole + f)
    return top + (((f - (top - whole)) + k * LN2_LOW) - less)


def _log_pair(b: RoutineBuilder, x: Expr) -> tuple[Var, Var]:
    """log(x) as a sum high + low with a relative error of about 2**-64, high of 26 bits; x positive and finite."""
    k, m = _split(b, x)
    f = b.let("f", m - 1.0)
    d = b.let("d", m + 1.0)
    s = b.let("s", f / d)
    s_high = b.let("s_high", high_part(s))
    d_high = b.let("d_high", high_part(d))
    d_low = b.let("d_low", m - (d_high - 1.0))  # exact, though d is rounded
    s_low = b.let("s_low", ((f - s_high * d_high) - s_high * d_low) / d)
    z_high = b.let("z_high", s_high * s_high)  # exact
    z_low = b.let("z_low", s_low * (s_high + s))
    z = b.let("z", z_high + z_low)
    rest = b.let("rest", z_low + z * z * polynomial(LOG_TAIL, z))
    t_high = b.let("t_high", high_part((3.0 + z_high) + rest))
    t_low = b.let("t_low", rest - ((t_high - 3.0) - z_high))
    main = b.let("main", s_high * t_high)  # exact
    minor = b.let("minor", s_low * t_high + t_low * s)
    p_high = b.let("p_high", high_part(main + minor))
    p_low = b.let("p_low", minor - (p_high - main))
    # times 2/3, plus k times ln 2
    fraction = b.let("fraction", p_high * TWO_THIRDS_HIGH)  # exact
    fraction_low = b.let("fraction_low", p_high * TWO_THIRDS_LOW + p_low * (TWO_THIRDS_HIGH + TWO_THIRDS_LOW))
    whole = b.let("log_whole", k * LN2_HIGH)  # exact
    total = b.let("total", whole + fraction)
    carry = b.let("carry", ((fraction - (total - whole)) + k * LN2_LOW) + fraction_low)
    high = b.let("log_high", high_part(total + carry))
    return high, b.let("log_low", (total - high) + carry)


# --- routines ----------------------------------------------------------------------------------------------------


def _exp_routine() -> Routine:
    b = RoutineBuilder("x")
    (x,) = b.params
    y = exp_part(b, b.let("clamped", clamp(x, -746.0, 710.0)), subnormal=True)
    return b.returns("exp", select(is_nan(x), x, y), 1.0, "e to the power x")


def _log_routine() -> Routine:
    b = RoutineBuilder("x")
    (x,) = b.params
    inside = b.let("inside", apply("and", x > 0.0, x < INFINITY))
    y = log_part(b, b.let("safe", select(inside, x, 1.0)))
    outside = select(apply("eq", x, 0.0), -INFINITY, select(x > 0.0, x, NAN))  # +inf stays
    result = select(inside, y, select(is_nan(x), x, outside))
    return b.returns("log", result, 1.0, "natural logarithm of x; -inf at 0, NaN below")


def _pow_routine() -> Routine:
    b = RoutineBuilder("x", "y")
    x, y = b.params
    a = b.let("a", apply("abs", x))
    inside = b.let("inside", apply("and", a > 0.0, a < INFINITY))
    log_high, log_low = _log_pair(b, b.let("safe", select(inside, a, 1.0)))
    # Beyond 2**65 every power but that of 1 is 0 or inf, so y may be clamped and nothing below overflows.
    factor = b.let("factor", clamp(y, -(2.0**65), 2.0**65))
    factor_high = b.let("factor_high", high_part(factor))
    low = b.let("product_low", (factor - factor_high) * log_high + factor * log_low)
    high = b.let("product_high", factor_high * log_high)  # exact
    product = b.let("product", high + low)
    clamped = b.let("clamped", clamp(product, -746.0, 710.0))
    kept = apply("eq", clamped, product)
    remainder = b.let("remainder", select(kept, (high - product) + low, 0.0))
    core = b.let("core", exp_part(b, clamped, remainder, subnormal=True))
    # The rest is Annex F of C99: zeros, infinities, signs and NaN.
    up = b.let("up", apply("eq", a > 1.0, y > 0.0))  # whether the power of 0 or inf is inf
    magnitude = b.let("magnitude", select(inside, core, select(up, const(INFINITY, FLOAT64), 0.0)))
    half = b.let("half_y", y * 0.5)
    is_integer = b.let("is_integer", apply("eq", apply("floor", y), y))
    is_odd = b.let("is_odd", apply("and", is_integer, apply("ne", apply("floor", half), half)))
    flipped = apply("and", is_negative(x), is_odd)
    signed = b.let("signed", select(flipped, -magnitude, magnitude))
    undefined = apply("and", apply("and", inside, x < 0.0), apply("not", is_integer))
    ordered = select(apply("or", is_nan(x), is_nan(y)), x + y, select(undefined, NAN, signed))
    is_one = apply("or", apply("eq", x, 1.0), apply("eq", y, 0.0))
    return b.returns("pow", select(is_one, 1.0, ordered), 1.0, "x to the power y, as C99 Annex F pow")


def exponential() -> Iterator[Routine]:
    """The programs of this file."""
    yield from (_exp_routine(), _log_routine(), _pow_routine())

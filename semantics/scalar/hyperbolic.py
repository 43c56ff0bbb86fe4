"""The hyperbolic functions and their inverses as programs of exact operations (rule M10; specs/semantics.md,
"Transcendental functions")."""

from __future__ import annotations

from collections.abc import Iterator

from assay.semantics.dtypes import FLOAT64
from assay.semantics.scalar.exponential import exp_part, log_part
from assay.semantics.scalar.expression import Expr, Var, apply, const, select
from assay.semantics.scalar.routine import (
    INFINITY,
    NAN,
    Routine,
    RoutineBuilder,
    clamp,
    is_nan,
    is_negative,
    polynomial,
)

LN2 = 0.6931471805599453
# sinh(x) = x + x*z*p(z), z = x*x, |x| <= 1/2: the series, of which what is left out is below 2**-60
SINH = tuple(1 / n for n in (6, 120, 5040, 362880, 39916800, 6227020800, 1307674368000))
SINH_NEAR, FAR = 0.5, 40.0
"""Above FAR exp(-x) is nothing beside exp(x); exp(x) itself would overflow before the result does."""
LARGE = 2.0**28
"""Above it the square of a number and 1 is its square."""


def _exponentials(b: RoutineBuilder, a: Var) -> tuple[Var, Var, Expr]:
    """Of a >= 0: whether it is far; exp(a), or exp(a / 2) where it is; and exp(a) / 2 by way of the latter."""
    far = b.let("far", a > FAR)
    e = b.let("power", exp_part(b, b.let("clamped", clamp(select(far, 0.5 * a, a), 0.0, 372.0)), subnormal=False))
    return far, e, (0.5 * e) * e


def _sinh_routine() -> Routine:
    b = RoutineBuilder("x")
    (x,) = b.params
    a = b.let("a", apply("abs", x))
    near = b.let("near", clamp(a, 0.0, SINH_NEAR))
    z = b.let("z", near * near)
    inner = b.let("inner", near + near * (z * polynomial(SINH, z)))
    far, e, large = _exponentials(b, a)
    y = b.let("magnitude", select(a < SINH_NEAR, inner, select(far, large, (e - 1.0 / e) * 0.5)))
    return b.returns("sinh", select(is_nan(x), x, select(is_negative(x), -y, y)), 2.5, "hyperbolic sine of x")


def _cosh_routine() -> Routine:
    b = RoutineBuilder("x")
    (x,) = b.params
    a = b.let("a", apply("abs", x))
    far, e, large = _exponentials(b, a)
    y = select(far, large, (e + 1.0 / e) * 0.5)
    return b.returns("cosh", select(is_nan(x), x, y), 2.5, "hyperbolic cosine of x")


def _log_of_one_and(b: RoutineBuilder, t: Var, large: Var | None = None, x: Var | None = None) -> tuple[Expr, Var]:
    """log(1 + t) for finite t >= 0, by Kahan: the rounding of 1 + t is taken back by dividing by what was really added.
    And the logarithm that it is made of: where `large` holds, that of x."""
    u = b.let("u", 1.0 + t)
    log = b.let("logarithm", log_part(b, u if large is None or x is None else b.let("safe", select(large, x, u))))
    added = b.let("added", u - 1.0)
    alone = b.let("alone", apply("eq", added, 0.0))
    return select(alone, t, log * (t / select(alone, 1.0, added))), log


def _asinh_routine() -> Routine:
    b = RoutineBuilder("x")
    (x,) = b.params
    a = b.let("a", apply("abs", x))
    large = b.let("large", apply("and", a > LARGE, a < INFINITY))
    near = b.let("near", clamp(a, 0.0, LARGE))
    square = b.let("square", near * near)
    t = b.let("t", near + square / (1.0 + apply("sqrt", square + 1.0)))
    small, log = _log_of_one_and(b, t, large, a)
    y = b.let("magnitude", select(large, log + LN2, select(apply("eq", a, INFINITY), a, small)))
    signed = select(is_negative(x), -y, y)
    return b.returns("asinh", select(is_nan(x), x, signed), 3.5, "the number whose hyperbolic sine is x")


def _acosh_routine() -> Routine:
    b = RoutineBuilder("x")
    (x,) = b.params
    large = b.let("large", apply("and", x > LARGE, x < INFINITY))
    above = b.let("above", clamp(x, 1.0, LARGE) - 1.0)
    t = b.let("t", above + apply("sqrt", 2.0 * above + above * above))
    small, log = _log_of_one_and(b, t, large, x)
    y = select(x < 1.0, NAN, select(large, log + LN2, select(apply("eq", x, INFINITY), x, small)))
    what = "the number, not negative, whose hyperbolic cosine is x; NaN below 1"
    return b.returns("acosh", select(is_nan(x), x, y), 3.5, what)


def _atanh_routine() -> Routine:
    b = RoutineBuilder("x")
    (x,) = b.params
    a = b.let("a", apply("abs", x))
    inside = b.let("inside", a < 1.0)
    s = b.let("inner", select(inside, a, 0.0))
    t = b.let("t", (s + s) / (1.0 - s))
    small, _ = _log_of_one_and(b, t)
    y = b.let("magnitude", select(inside, 0.5 * small, select(a > 1.0, NAN, const(INFINITY, FLOAT64))))
    what = "the number whose hyperbolic tangent is x; infinite at -1 and 1, NaN beyond"
    return b.returns("atanh", select(is_nan(x), x, select(is_negative(x), -y, y)), 3.5, what)


def hyperbolic() -> Iterator[Routine]:
    """The programs of this file."""
    yield from (_sinh_routine(), _cosh_routine(), _asinh_routine(), _acosh_routine(), _atanh_routine())

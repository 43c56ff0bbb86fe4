"""The error model: how far one correct step may be from the real number it stands for (specs/semantics.md, "Numbers").

A correct implementation of a primitive computes in the primitive's dtype. It may round faithfully, or twice (through a
wider register), instead of once to nearest; it may associate a reduction in any order and contract a*b+c; its
elementary functions are within `ULPS`. It keeps subnormals (rule M5).

Everything here is computed in float64, so every coefficient has a second part that covers the rounding of the float64
centre and of the radius itself. For float64 programs this about doubles the radius.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import numpy.typing as npt

from assay.semantics.dtypes import DType

U64 = 2.0**-53

ULPS: dict[str, float] = {"exp": 4.0, "log": 4.0, "tanh": 4.0, "erf": 4.0, "power": 4.0} | dict.fromkeys(
    ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh"), 4.0
)
"""Allowed error of an elementary function, in units in the last place of its result.

float32 libraries in use are within 4 ulp (NumPy's SIMD log: 3.83). `power` has (1 + |y ln x|) times as much, so that
exp(y * log(x)) is correct too. sqrt, and everything not listed, is one rounding. Types of 16 bits are allowed 2 and
types of 8 bits 1: there the function is evaluated in a wider type.
"""

NARROW_ULPS = {16: 2.0, 8: 1.0}

SLACK = 8
"""Roundings that a contraction may have beside its own terms: `FOLDS`, `TAKEN_UP`, and those of factors that all its
products have, of a scale or a batch norm that is folded into the weights."""
FOLDS = 4
"""How many of them each product has by itself: a weight times a factor of what is read and one of what comes of it,
each rounded faithfully."""
TAKEN_UP = 2
"""How many terms more than one a contraction may take up (rule M9.8); a sum of elements half as many."""


@cache
def unit(of: DType) -> float:
    """Relative error of one rounding to `of`: two roundings to nearest, or one faithful one."""
    u = of.unit_roundoff
    return 2 * u * (1 + u) + 8 * U64


@cache
def elementary(name: str, of: DType) -> float:
    """Relative error of an elementary function, without the factor of `power` (rule M9.2)."""
    ulps = min(ULPS[name], NARROW_ULPS.get(of.bits, math.inf))
    return 2 * ulps * (of.unit_roundoff + U64) + 8 * U64


@cache
def gamma(terms: int, of: DType) -> float:
    """Relative error, against the sum of magnitudes, of a sum of products of `terms` roundings in any order.

    n u / (1 - n u) while that is below one; beyond, 2 n u is safe, for n u holds without restriction where each
    operation rounds to nearest (Jeannerod and Rump, "Improved error bounds for inner products", 2013) (rule M9.2).
    """
    total = 8 * U64
    for u in (of.unit_roundoff, U64) if of.is_float else (U64,):
        n = terms * u
        total += n / (1 - min(n, 0.5))
    return total


@cache
def summation(terms: int, more: int, slack: int, of: DType, common: int = 0) -> tuple[float, float]:
    """What a sum of so many products may be off by, added in any order: a part of the sum A of their magnitudes, and a
    part of the magnitude of the sum S. It may take up so many terms `more` than one (rule M9.8). Each product may have
    `slack` more roundings, and all together `common` ones.

    In a tree of additions no partial sum is beyond the sum of all that is above 0, or of all below: that is
    (A + |S|) / 2 at most. Each of the additions rounds no more than that, and what is computed instead of it.
    """
    whole = gamma(terms + more + slack + common, of)
    if whole > 1 / 16:
        return whole, 0.0
    adds = (terms - 1 + more) * of.unit_roundoff / 2
    each = gamma(1 + slack, of) * (1 + 2 * whole) + adds * (1 + 2 * whole) + 2 * terms * U64
    return each, adds + (gamma(common, of) * (1 + 2 * whole) if common else 0.0)


def gammas(terms: npt.NDArray[np.int64], of: DType) -> npt.NDArray[np.float64]:
    """`gamma` of each of many numbers of terms, of a float dtype."""
    parts = [terms * u for u in (of.unit_roundoff, U64)]
    return np.asarray(8 * U64 + sum(n / (1 - np.minimum(n, 0.5)) for n in parts))


@cache
def has_infinity(of: DType) -> bool:
    """Whether an overflow gives an infinity; in the others it gives NaN or the largest number, as the target likes."""
    with np.errstate(all="ignore"):
        return of.is_float and bool(np.isinf(np.float64(np.asarray(np.inf).astype(of.numpy))))


@cache
def has_sign(of: DType) -> bool:
    """Whether the type has negative numbers and zero: all floats but float8_e8m0fnu, which is a scale, not a number."""
    return not of.is_float or of.name != "float8_e8m0fnu"


@cache
def overflow_at(of: DType) -> tuple[float, float]:
    """(safe, sure): a real number below `safe` in magnitude rounds to a finite one; one from `sure` on never does."""
    top = float(of.max)
    if not of.is_float:
        return top, top + 1
    u = of.unit_roundoff
    # halfway between the largest number and the next power of two is top * (1 + u / 2), nearly
    return top * (1 + u / 2 - 8 * U64), top * (1 + 4 * u)

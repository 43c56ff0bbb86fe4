"""What is exact has one value (specs/semantics.md, "Numbers").

A result that the dtype holds, of operands that are known exactly, is not rounded: faithfully or twice, it is the same
number. So a quotient such as 5 / 2 decides what rounds it, casts it or compares it. This is asked of the four
operations as operators of a program; within other formulas, such as a mean, a quotient may be a product with a rounded
reciprocal.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.semantics.bounding.core import Array, Bounded, Floats, coerce
from assay.semantics.dtypes import FLOAT64

SPLIT = 2.0**27 + 1
FAR = 2.0**400
"""Beyond this, or below its reciprocal, the pieces of a product may overflow or underflow in float64."""


def where_exact(name: str, out: Any, a: Any, b: Any) -> Any:
    """`out`, which is a + b, a - b, a * b or a / b by its rule, with no radius where the operands have none and the
    result is exact. An array stays as it is (rule M9.12)."""
    if not isinstance(out, Bounded) or not out.of.is_float or out.terms:
        return out
    a, b = coerce(a, b)
    sure = np.asarray((a.radius == 0) & (b.radius == 0) & (out.radius > 0) & np.isfinite(out.radius))
    if not sure.any():
        return out
    of = out.of
    with np.errstate(all="ignore"):
        x, y = (np.broadcast_to(v, out.value.shape) for v in (a.value, b.value))  # np.broadcast_arrays ends at 32 axes
        result, left = _with_remainder(name, x, y, of is FLOAT64)
        held = np.asarray(result).astype(of.numpy).astype(np.float64) == result
        sure &= held & (left == 0) & (np.abs(result) >= of.smallest_normal) & (np.abs(result) <= float(of.max))
    return out.cut(np.where(sure, result, out.value), np.where(sure, 0.0, out.radius))


def _with_remainder(name: str, x: Array, y: Array, wide: bool) -> tuple[Floats, Floats]:
    """The operation in float64, and what that leaves out: 0 where nothing. Factors of narrower dtypes have an exact
    product; so has a quotient that such a dtype holds."""
    match name:
        case "add" | "subtract":
            y = y if name == "add" else -y
            total = x + y
            other = total - x
            return total, (x - (total - other)) + (y - other)
        case "multiply":
            product = x * y
            return product, _lost(x, y, product) if wide else np.zeros(product.shape)
        case _:
            quotient = x / y
            product = quotient * y
            left = product - x
            return quotient, left + _lost(quotient, y, product) if wide else left


def _lost(x: Floats, y: Floats, product: Floats) -> Floats:
    """What a product leaves out, by pieces of 26 bits (Dekker 1971); 1 where they may overflow or underflow."""

    def pieces(v: Floats) -> tuple[Floats, Floats]:
        high = SPLIT * v - (SPLIT * v - v)
        return high, v - high

    (a, b), (c, d) = pieces(x), pieces(y)
    left = ((a * c - product) + a * d + b * c) + b * d
    sizes = [np.abs(v) for v in (x, y, product)]
    near = np.logical_and.reduce([(s < FAR) & (s > 1 / FAR) for s in sizes])
    return np.where(near, left, 1.0)

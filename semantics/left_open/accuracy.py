"""Results that may be a little off where the standard says nothing of accuracy (specs/semantics.md, "Left open")."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from assay.semantics.dtypes import dtype
from assay.semantics.left_open import Opening, OperatorUse
from assay.semantics.ops.elementwise import gelu_tanh

NEAR_ZERO = 2.0**-16
"""How far off results below the least normal number may be, as a part of that."""


def small_results(u: OperatorUse) -> Iterator[Opening]:
    """Elementary functions whose result is so small that this is more than 4 units in its last place, or 0 because it
    is too small for the dtype: that near, or 0, and of no other sign."""
    result = u.results[0]
    of = dtype(result.dtype)
    wide = result.astype(np.float64)
    off = of.smallest_normal * NEAR_ZERO
    too_small = np.asarray(wide != 0)
    if u.operator not in ("log", "acos", "acosh"):  # which are 0 at 1
        too_small = too_small | np.logical_and.reduce(
            np.broadcast_arrays(*(np.isfinite(a) & (a != 0) for a in u.operands))
        )
    low, high = wide - off, wide + off
    below = np.signbit(wide)
    low, high = np.where(below, low, np.maximum(low, 0.0)), np.where(below, np.minimum(high, 0.0), high)
    where = (8 * of.unit_roundoff * np.abs(wide) < off) & too_small
    yield Opening(np.asarray(where), low.astype(result.dtype), high.astype(result.dtype))


def det_of_one(u: OperatorUse) -> Iterator[Opening]:
    """det of a matrix of one element, which may go by a logarithm or by an elimination: near the element."""
    (x,) = u.operands
    if x.shape[-1] != 1:
        return
    result = u.results[0]
    of = dtype(x.dtype)
    off = np.maximum(np.abs(result), result.dtype.type(of.smallest_normal)) * result.dtype.type(16 * of.unit_roundoff)
    yield Opening(np.isfinite(result) & (result != 0), result - off, result + off)


def constants_as_float(u: OperatorUse) -> Iterator[Opening]:
    """gelu with tanh in float64: its two constants may be rounded to float32, as in the function body of ONNX, which
    does it to 2 / pi before the root."""
    (x,) = u.operands
    if x.dtype != np.float64:
        return
    square, cubic = 2 / math.pi, 0.044715
    for one in (math.sqrt(square), math.sqrt(float(np.float32(square))), float(np.float32(math.sqrt(square)))):
        for other in (cubic, float(np.float32(cubic))):
            made = gelu_tanh(x, one, other)
            low, high = np.minimum(made, u.results[0]), np.maximum(made, u.results[0])
            # beside that, the roundings of the formula: those of 1 + tanh, which is near 0 where x is far below
            off = 2.0**-50 * (np.abs(x) + np.abs(made))
            yield Opening(np.isfinite(made), low - off, high + off)

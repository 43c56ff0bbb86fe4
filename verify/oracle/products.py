"""What products and sums may be off by where a backend declares that it shortens them (specs/verify.md, "Verdict", 8).

Each freedom says how a factor, or a partial sum, may be rounded beyond what M9 allows; from this, and from the
operands, comes how far a result may be off. Nothing else of an operator is any freer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from assay.interp.values import Value
from assay.semantics.bounds import Bounded
from assay.semantics.dtypes import DTYPES, FLOAT16, FLOAT32, dtype
from assay.semantics.operator import Operator
from assay.verify.oracle.declarations import Accepts
from assay.verify.oracle.dot import TERMS

Array = np.ndarray[Any, Any]

SPLIT = 3 * 2.0**-16
"""What two bfloat16 parts leave out of each factor, and the product of the lesser parts: each at most 2**-16."""
BITS = 13
"""Bits of a float32 that a factor of TF32 has not."""
CUT = 2.0**-10
"""What a factor loses at most where these are cut off; rounding to nearest loses half of it."""
CUT_SUBNORMAL = 2.0**-136
"""The same of a subnormal number, not in parts of it."""
LARGEST = float(np.array(0x7F7FE000, np.uint32).view(np.float32))
"""The largest number that TF32 has: above it rounding may overflow."""
ROUNDED = DTYPES["bfloat16"].unit_roundoff
"""What a partial sum in bfloat16 is off by."""
ROUNDED_SUBNORMAL = 2.0**-133
SLACK = 1 + 2.0**-30
"""For the roundings of what is computed here."""


def loosened(accepts: Accepts, op: Operator | None, attrs: Mapping[str, Any], args: Sequence[Value], x: Value) -> Value:
    """A result with what the declared freedoms let it be off by."""
    if op is None or not accepts.shortens or not isinstance(x, Bounded):
        return x
    off: Any = 0.0
    with np.errstate(all="ignore"):
        if op.family == "contraction" and x.of is FLOAT32:
            if accepts.splits:
                off = off + SPLIT * np.asarray(op.value(attrs, *map(_size, args)))
            if accepts.tf32 and op.name in TERMS:
                off = off + _by_tf32(op, attrs, args)
        if accepts.sums and op.name in TERMS and x.of in (FLOAT32, FLOAT16):
            off = off + _by_short_sums(op, attrs, args)
    off = np.where(np.isnan(off), np.inf, off)
    if not np.any(off):
        return x
    return Bounded(x.value, np.where(np.isfinite(x.value), x.radius + off, x.radius), x.of)


def is_loose(accepts: Accepts, operands: Sequence[Array]) -> bool:
    """Whether whole numbers need not be added up exactly: they are where no factor loses a bit by TF32."""
    if accepts.splits or accepts.sums:
        return True
    return accepts.tf32 and any(dtype(a.dtype) is FLOAT32 and not _is_short(a).all() for a in operands)


def _size(a: Value) -> Array:
    """The largest magnitude that each element may have."""
    return np.abs(a.value) + a.radius if isinstance(a, Bounded) else np.abs(np.asarray(a).astype(np.float64))


def _is_short(a: Array) -> Array:
    """Which elements of an array of float32 TF32 holds as they are."""
    bits = np.ascontiguousarray(a).reshape(a.shape).view(np.uint32)
    return np.asarray((bits & ((1 << BITS) - 1)) == 0)


def _lost(a: Value, size: Array) -> Array:
    """What each factor may lose."""
    lost = np.where(size > LARGEST, np.inf, CUT * size + CUT_SUBNORMAL)
    exact = np.asarray(a.value).astype(np.float32) if isinstance(a, Bounded) else np.asarray(a).astype(np.float32)
    known = (a.radius == 0) & (exact == a.value) if isinstance(a, Bounded) else np.ones(exact.shape, bool)
    return np.where(known & _is_short(exact), 0.0, lost)


def _by_tf32(op: Operator, attrs: Mapping[str, Any], args: Sequence[Value]) -> Array:
    """What products of shortened factors may be off by; a bias is added as it is."""
    (a, b), (size, other) = args[:2], map(_size, args[:2])
    lost, less = _lost(a, size), _lost(b, other)
    if not lost.any() and not less.any():
        return np.zeros(())
    return np.asarray(op.value(attrs, lost, other + less) + op.value(attrs, size, less)) * SLACK


def _by_short_sums(op: Operator, attrs: Mapping[str, Any], args: Sequence[Value]) -> Array:
    """What sums in bfloat16 may be off by: each product and each partial sum is rounded, in any order."""
    terms = TERMS[op.name](attrs, args) + 2
    sizes = np.asarray(op.value(attrs, *map(_size, args)))
    return np.asarray(np.expm1(terms * np.log1p(ROUNDED)) * sizes + terms * ROUNDED_SUBNORMAL) * SLACK

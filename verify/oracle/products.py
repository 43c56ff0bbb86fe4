"""What products and sums may be off by where a backend declares that it shortens them (specs/verify.md, "Verdict", 8).

Each freedom says how a factor, or a partial sum, may be rounded beyond what M9 allows; from this, and from the
operands, comes how far a result may be off. Nothing else of an operator is any freer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from assay.interp.values import Value
from assay.semantics.bounding.model import overflow_at
from assay.semantics.bounds import Bounded, magnitude
from assay.semantics.dtypes import DTYPES, FLOAT16, FLOAT32, DType, dtype
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
    if op is None or not isinstance(x, Bounded):
        return x
    free = freedoms(accepts, op, x.of)
    if not free:
        return x
    off: Any = 0.0
    with np.errstate(all="ignore"):
        if "splits" in free:
            off = off + SPLIT * np.asarray(op.value(attrs, *map(magnitude, args)))
        if "tf32" in free:
            off = off + _by_tf32(op, attrs, args)
        if "sums" in free:
            off = off + _by_short_sums(op, attrs, args)
        off = np.where(np.isnan(off), np.inf, off)
        if not np.any(off):
            return x
        radius = np.where(np.isfinite(x.value), x.radius + off, x.radius)
        # shortened factors and sums overflow where others do not
        overflows = (off > 0) & ~(np.abs(x.value) + radius < overflow_at(x.of)[0])
    return Bounded(x.value, np.where(overflows & np.isfinite(x.value), np.inf, radius), x.of)


def freedoms(accepts: Accepts, op: Operator, of: DType) -> set[str]:
    """Which of the declared freedoms an operator has that gives a result of a dtype. All else is judged as everybody's
    is."""
    has = {
        "splits": accepts.splits and op.family == "contraction" and of is FLOAT32,
        "tf32": accepts.tf32 and op.family == "contraction" and of is FLOAT32 and op.name in TERMS,
        "sums": accepts.sums and op.name in TERMS and of in (FLOAT32, FLOAT16),
    }
    return {name for name, is_so in has.items() if is_so}


def is_loose(accepts: Accepts, op: Operator, of: DType, operands: Sequence[Array]) -> bool:
    """Whether whole numbers need not be added up exactly in a result of a dtype: they are where no factor loses a bit
    by TF32."""
    free = freedoms(accepts, op, of)
    if free - {"tf32"}:
        return True
    return "tf32" in free and any(dtype(a.dtype) is FLOAT32 and not _is_short(a).all() for a in operands)


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
    (a, b), (size, other) = args[:2], map(magnitude, args[:2])
    lost, less = _lost(a, size), _lost(b, other)
    if not lost.any() and not less.any():
        return np.zeros(())
    return np.asarray(op.value(attrs, lost, other + less) + op.value(attrs, size, less)) * SLACK


def _by_short_sums(op: Operator, attrs: Mapping[str, Any], args: Sequence[Value]) -> Array:
    """What sums in bfloat16 may be off by: each product and each partial sum is rounded, in any order."""
    terms = TERMS[op.name](attrs, args) + 2
    sizes = np.asarray(op.value(attrs, *map(magnitude, args)))
    off = np.asarray(np.expm1(terms * np.log1p(ROUNDED)) * sizes + terms * ROUNDED_SUBNORMAL) * SLACK
    return np.where(sizes == 0, 0.0, off)  # zeros are not rounded, nor is a sum of nothing


def least_partial_product(op: Operator | None, attrs: Mapping[str, Any], args: Sequence[Value]) -> Array | None:
    """The least size that a product of some factors of each element may have, zeros left out: those below 1 may meet
    first. None for an operator that does not multiply many."""
    return _partial_product(op, attrs, args, np.minimum)


def _partial_product(op: Operator | None, attrs: Mapping[str, Any], args: Sequence[Value], end: Any) -> Array | None:
    if op is None or not (op.name in ("prod", "cumprod") or (op.name, attrs.get("reduction")) == ("scatter_nd", "mul")):
        return None
    some = [a if dtype(a.dtype).is_integer else _on_one_side(a, end) for a in args]
    with np.errstate(all="ignore"):
        return np.asarray(op.value(attrs, *some))


def _on_one_side(x: Value, end: Any) -> Array:
    """The least size of each number, and 1 for one that is on the other side of 1, may be zero, or is not finite."""
    given = x if isinstance(x, Bounded) else Bounded.exact(np.asarray(x))
    size = np.abs(given.value) - given.radius
    return np.where((size > 0) & np.isfinite(size), end(size, 1.0), 1.0)


def hangs_on_order(op: Operator | None, attrs: Mapping[str, Any], args: Sequence[Array]) -> bool:
    """Whether a product of many vanishes or overflows midway in some order of its factors, and not in another."""
    least = _partial_product(op, attrs, args, np.minimum)
    most = _partial_product(op, attrs, args, np.maximum)
    if least is None or most is None or not dtype(args[0].dtype).is_float:
        return False
    of = dtype(args[0].dtype)
    both = (least < 1) & (most > 1)
    return bool(np.any(both & ((least < float(of.smallest_normal)) | (most > float(of.max)))))

"""Of which zeros the sign is free (specs/verify.md, "Verdict", point 2).

Operators that move elements keep their signs, and so do negative and abs. Of a zero that any other operator gives the
sign is free: implementations differ in it, and the definitions that ours follow are silent. It stays free where such a
zero is moved. Intervals carry which zeros these are (`Bounded.free`), for a value may reach an output without another
operator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from assay.interp.values import Value
from assay.semantics.bounding import core
from assay.semantics.bounds import Bounded
from assay.semantics.operator import Operator
from assay.semantics.ops import OPERATORS

Array = np.ndarray[Any, Any]
KEEPS_SIGNS = frozenset({
    *(op.name for op in OPERATORS.values() if op.family == "movement"),
    "negative", "abs", "where", "gather_nd", "scatter_nd",
})  # fmt: skip
"""Operators whose result has zeros of a certain sign, where those of the operands have."""


def marked(op: Operator | None, attrs: Mapping[str, Any], args: Sequence[Value], result: Value) -> Value:
    """A result with the zeros marked of which the sign is free. What is one of the operands is that no longer where
    another operator gives it: the operand's zeros are as certain as before."""
    parts = list(result) if isinstance(result, tuple) else [result]
    if not any(_is_float(p) for p in parts):
        return result
    keeps = op is not None and op.name in KEEPS_SIGNS and attrs.get("reduction", "none") == "none"
    if keeps and all(a.free is None for a in args if isinstance(a, Bounded)):
        return result
    moved = _moved(op, attrs, args) if keeps and op is not None else None
    for i, part in enumerate(parts):
        if not _is_float(part):
            continue
        assert isinstance(part, Bounded)
        if any(part is a for a in args):
            parts[i] = part = core.moved(part, lambda a: a)
            part.given = None
        zeros = part.raw == 0
        free = zeros if moved is None else zeros & (moved[i] != 0)
        free = free if part.free is None else free | part.free
        part.free = free if free.any() else None
    return tuple(parts) if isinstance(result, tuple) else parts[0]


def _moved(op: Operator, attrs: Mapping[str, Any], args: Sequence[Value]) -> list[Array] | None:
    """Where the operator puts what is free, as numbers that are not 0; None where that is not known."""
    flags: list[Value] = []
    for a in args:
        if not isinstance(a, Bounded):
            flags.append(a)
        elif _is_float(a):
            flags.append(np.broadcast_to(np.zeros((), a.dtype), a.shape) if a.free is None else a.free.astype(a.dtype))
        else:
            return None
    with np.errstate(all="ignore"):
        made = op.value(attrs, *flags)
    return [np.asarray(m) for m in (made if isinstance(made, tuple) else (made,))]


def carried_over(before: Value, after: Value) -> Value:
    """`after`, which is `before` made wider or narrower, with the same zeros marked."""
    pairs = (
        zip(before, after, strict=True) if isinstance(before, tuple) and isinstance(after, tuple) else [(before, after)]
    )
    for old, new in pairs:
        if new is not old and isinstance(old, Bounded) and isinstance(new, Bounded):
            new.free = old.free
    return after


def flipped(allowed: Bounded, got: Array) -> Array:
    """Where a zero has the sign that ours has not, whether that is free or not; `got` has the shape of `allowed`."""
    zero = (allowed.raw == 0) & (allowed.radius == 0) & (got == 0)
    return np.asarray(zero & (np.signbit(allowed.raw) != np.signbit(got)))


def certain(allowed: Bounded) -> Array | bool:
    """Where the sign of a zero is not free."""
    return ~allowed.free if allowed.free is not None else True


def _is_float(x: Any) -> bool:
    return isinstance(x, Bounded) and x.of.is_float

"""The layers of a verdict, for one result of one operator (specs/verify.md, "Verdict").

In this order: what is exact is compared bit for bit; then what is exact because the data are whole numbers; then the
interval of the operator's definition, which for elementwise operators is a number of ulps; sums of products are looked
at all together too. What hangs on operands that are not known exactly is judged by the propagated interval alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from assay.interp.values import plain
from assay.semantics.bounds import Bounded
from assay.semantics.left_open import exactly_known
from assay.verify.oracle.declarations import Accepts
from assay.verify.oracle.dot import TERMS, wrong_together
from assay.verify.oracle.findings import Applied, TensorFinding
from assay.verify.oracle.left_open import Silence, without_value
from assay.verify.oracle.products import freedoms, is_loose
from assay.verify.oracle.scaled_integers import ScaledIntegers, exact_result
from assay.verify.oracle.signs import certain, flipped
from assay.verify.oracle.verdict import Worst, fits, worst_exact, worst_outside

Array = np.ndarray[Any, Any]
BITWISE, INTEGERS, ELEMENTWISE, DOT, GRAPH = "bitwise", "integers", "elementwise", "dot product", "graph"
REBASED = "rebased"
LAYERS = (BITWISE, INTEGERS, ELEMENTWISE, DOT, GRAPH, REBASED)


def judge_result(
    tensor: str, by: Applied | None, allowed: Any, got: Array, accepts: Accepts, index: int = 0
) -> TensorFinding:
    """The verdict on a result, or on field `index` of a result that is a tuple; `allowed` is what M9 allows for it."""
    found = replace(_by_layers(tensor, by, allowed, got, accepts, index), size=got.size)
    if not found.wrong:
        found = _with_bits(found, allowed, got)
    if not found.wrong:
        found = without_value(found, by, allowed, index)
    # a float that nothing is known of is kept for nobody: whole graphs are made of them
    kept = found.wrong or (found.open and not allowed.of.is_float)
    return replace(found, allowed=allowed, by=by) if kept else found


def _with_bits(found: TensorFinding, allowed: Any, got: Array) -> TensorFinding:
    """The finding with the bits counted that are others than ours and are free; wrong where the sign of a zero is
    not."""
    if not isinstance(allowed, Bounded) or not allowed.of.is_float:
        return found
    turned = flipped(allowed, got)
    if (turned & certain(allowed)).any():
        worst = worst_exact(
            found.tensor, np.where(turned & certain(allowed), -got, got).astype(got.dtype), got, signs=True
        )
        return replace(found, layer=BITWISE, wrong=str(worst), worst=worst)
    nans = 0
    if found.layer in (BITWISE, INTEGERS):
        both = np.isnan(allowed.raw) & np.isnan(got)
        bits = np.dtype(f"u{got.dtype.itemsize}")
        ours, theirs = (a[both].view(bits) for a in (np.asarray(allowed.raw, got.dtype), got))
        nans = int(np.count_nonzero(ours != theirs))
    return replace(found, zeros=int(np.count_nonzero(turned)), nans=nans)


def _by_layers(
    tensor: str, by: Applied | None, allowed: Any, got: Array, accepts: Accepts, index: int = 0
) -> TensorFinding:
    odd = fits(tensor, allowed, got)
    if odd:
        return TensorFinding(tensor, BITWISE, odd, by=by, size=got.size)
    if not isinstance(allowed, Bounded) or allowed.is_exact:
        return _found(tensor, BITWISE, worst_exact(tensor, np.asarray(plain(allowed)), got), by)
    operands = by.known if by is not None and by.op is not None else None
    if by is None or by.op is None or operands is None:
        return _found(tensor, GRAPH, worst_outside(tensor, allowed, got), by, allowed)
    op = by.op
    only = None if is_loose(accepts, op, allowed.of, operands) else _exact_result(by, operands, index)
    if only is not None:
        return _found(tensor, INTEGERS, worst_exact(tensor, only, got), by)
    layer = (
        BITWISE
        if allowed.is_decided
        else DOT
        if op.name in TERMS
        else ELEMENTWISE
        if op.family == "elementwise"
        else GRAPH
    )
    found = _found(tensor, layer, worst_outside(tensor, allowed, got), by, allowed)
    # operands are known: what is wide here is as wide as the roundings of sums make it, and only an infinite radius
    # says nothing; but a variance may be computed in a way that leaves nothing of it
    nothing = allowed.vacuous if op.family == "normalization" else np.isinf(allowed.radius)
    found = replace(found, unknown=nothing)
    if layer == DOT and not found.wrong and not freedoms(accepts, op, allowed.of):
        together = wrong_together(op, by.attrs, operands, got, tensor, allowed)
        if together:
            return TensorFinding(tensor, layer, together[0], together[1], by=by)
    return found


def _found(tensor: str, layer: str, worst: Worst | None, by: Applied | None, allowed: Any = None) -> TensorFinding:
    left = open_elements(allowed, by) if worst is None and isinstance(allowed, Bounded) else None
    return TensorFinding(tensor, layer, str(worst) if worst else "", worst, left, by=by)


DECIDES = frozenset({"floor", "ceil", "round", "where"})
"""Operators whose result jumps where a decision is open; what compares or casts has no float result."""


def open_elements(allowed: Bounded, by: Applied | None) -> Array:
    """The elements of which too little is said: a decision is open, or the interval excludes nothing worth the name."""
    left = allowed.vacuous if allowed.of.is_float else allowed.radius > 0
    if by is not None and by.op is not None and by.op.name in DECIDES:
        condition = by.operands[0]
        if by.op.name != "where":
            left = allowed.radius > 0
        elif isinstance(condition, Bounded):
            left = left | np.broadcast_to(condition.radius > 0, allowed.shape)
    return np.asarray(left)


def _exact_result(by: Applied, operands: Sequence[Array], index: int) -> Array | None:
    """The only result that is right, where the operands are whole numbers that make it so."""
    assert by.op is not None
    with np.errstate(all="ignore"):
        result = exact_result(by.op, by.attrs, operands)
    result = result[index] if isinstance(result, tuple) else result
    return result.value if isinstance(result, ScaledIntegers) and not result.lost else None


def excused(
    finding: TensorFinding, wide: Any, silence: Silence, got: Array, others: Mapping[int, Array],
    given: Mapping[str, Any], accepts: Accepts, index: int = 0,
) -> TensorFinding:  # fmt: skip
    """The verdict on a tensor that is wrong or not decided by our definition, one of those `given`, with the elements
    that are left open taken for ours."""
    strict = finding.allowed
    got = got if finding.taken is None else finding.taken
    if (
        strict is None
        or fits(finding.tensor, strict, got)
        or not hasattr(wide, "shape")
        or tuple(wide.shape) != got.shape
    ):
        return finding
    admitted, entries = silence.admitted(wide, strict, got, others, silence.beside(finding.tensor, given))
    if not admitted.any():
        return finding
    repaired = np.where(admitted, exactly_known(strict), got).astype(got.dtype)
    again = judge_result(finding.tensor, finding.by, strict, repaired, accepts, index)
    if again.wrong:
        return again
    unknown = None if again.unknown is None else again.unknown & ~admitted
    count = int(np.count_nonzero(admitted))
    return replace(again, allowed=None, unknown=unknown, excused=count, silent=entries, flushed=finding.flushed)

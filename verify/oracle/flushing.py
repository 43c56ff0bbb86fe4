"""Subnormal numbers that are taken for zeros (specs/verify.md, "Verdict", 8).

What is wrong where subnormal numbers are kept is judged again, element by element: an operator by itself may take each
subnormal operand for zero, and give zero for a subnormal result. What lies there is taken for ours, and counted; what
is left over is as wrong as before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np

from assay.semantics.bounds import Bounded, contains
from assay.semantics.dtypes import dtype
from assay.semantics.left_open import exactly_known
from assay.verify.oracle.declarations import flushed, is_subnormal, open_subnormals
from assay.verify.oracle.findings import Applied, TensorFinding
from assay.verify.oracle.layers import judge_result
from assay.verify.oracle.verdict import Worst, fits
from assay.verify.oracle.walk import BoundedRun

Array = np.ndarray[Any, Any]
UNDECLARED = "subnormal numbers are taken for zeros, which it does not declare (flushes)"


@dataclass
class FlushingRun(BoundedRun):
    """A run in which subnormal numbers may be zeros. What the run before, of which `before` are the findings, calls
    wrong is judged again."""

    flushing: bool = True
    before: Mapping[str, TensorFinding] = field(default_factory=dict)

    def found(self, tensor: str, by: Applied, wanted: Any, got: Array, index: int) -> TensorFinding:
        """Keep the earlier verdict if nothing is wrong; else judge the tensor with what is flushed taken for ours."""
        before = self.before.get(tensor)
        if before is None:
            return judge_result(tensor, by, wanted, got, self.accepts, index)
        strict = before.allowed
        if not before.wrong or strict is None:
            return before
        wide = None if self.accepts.holds or self.accepts.within else of_zeros(by, index)
        return with_zeros(
            before, strict, wanted if wide is None else wide, got,
            lambda repaired: judge_result(tensor, by, strict, repaired, self.accepts, index),
        )  # fmt: skip


def of_zeros(by: Applied, index: int) -> Any:
    """What an elementwise operator may give for operands that are known, with zeros for the subnormal ones; None where
    that is not so, and all between them is possible."""
    known = by.known
    if by.op is None or by.op.family != "elementwise" or known is None:
        return None
    floats = [dtype(a.dtype).is_float for a in known]
    operands = [Bounded.exact(flushed(a)) if of else a for a, of in zip(known, floats, strict=True)]
    with np.errstate(all="ignore"):
        made = by.op.value(by.attrs, *operands)
    made = open_subnormals(_bounded(made[index] if isinstance(made, tuple) else made))
    if by.op.name not in COMPARE:
        return made
    # it compares zeros, and gives what stands there
    low, high = made.interval()
    small = [np.where(is_subnormal(a), a, a.dtype.type(0)).astype(np.float64) for a in known]
    zero = (low <= 0) & (high >= 0)
    low, high = (np.where(zero, reduce(f, small, e), e) for f, e in ((np.minimum, low), (np.maximum, high)))
    middle = low / 2 + high / 2
    return Bounded(np.where(zero, middle, made.value), np.where(zero, high - middle, made.radius), made.of)


COMPARE = frozenset({"maximum", "minimum", "clip", "nn.relu"})
"""Operators that give an operand by comparing."""


def with_zeros(
    finding: TensorFinding, strict: Any, wide: Any, got: Array, again: Callable[[Array], TensorFinding]
) -> TensorFinding:
    """The finding on a tensor that is wrong where subnormal numbers are kept, which `strict` allows, with the elements
    taken for ours that `wide` allows where they need not be; `again` judges a tensor where they are kept. Undecided
    where `wide` excludes nothing."""
    if not hasattr(wide, "dtype") or fits(finding.tensor, strict, got) or fits(finding.tensor, wide, got):
        return finding
    alone, wide = _bounded(strict), _bounded(wide)
    zeroed = (got == 0) & _is_below_normal(alone)
    taken = zeroed | (contains(wide, got) & ~contains(alone, got))
    if not taken.any():
        return finding
    repaired = np.where(taken, exactly_known(strict), got).astype(got.dtype)
    found = again(repaired)
    says_nothing = wide.vacuous if wide.of.is_float else wide.radius > 0
    loose = taken & ~zeroed & says_nothing
    unknown = loose if found.unknown is None else found.unknown | loose
    count = int(np.count_nonzero(taken & ~loose))
    return replace(found, unknown=unknown if loose.any() else found.unknown, flushed=count, taken=repaired)


def may_meet_subnormals(arrays: Iterable[Any], worst: Worst | None) -> bool:
    """Whether there are subnormal numbers among arrays, or where an element is that is wrong."""
    if any(isinstance(a, np.ndarray) and a.dtype.kind in "fV" and is_subnormal(a).any() for a in arrays):
        return True
    ends = (worst.least, worst.most) if worst is not None and isinstance(worst.got, float) else ()
    return any(0 < abs(e) < _LEAST_NORMAL for e in ends)


_LEAST_NORMAL = 2.0**-126
"""Of float32 and bfloat16; those of a narrower float are seen in arrays."""


def _bounded(x: Any) -> Bounded:
    return x if isinstance(x, Bounded) else Bounded.exact(np.asarray(x))


def _is_below_normal(x: Bounded) -> Array:
    """Where every correct result is a subnormal number, or zero."""
    if not x.of.is_float:
        return np.zeros(x.shape, bool)
    low, high = x.interval()
    least = x.of.smallest_normal
    return np.asarray((low > -least) & (high < least) & ~((low == 0) & (high == 0)))

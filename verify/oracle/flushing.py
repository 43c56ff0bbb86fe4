"""Subnormal numbers that are taken for zeros (specs/verify.md, "Verdict", 8).

What is wrong where subnormal numbers are kept is judged again, element by element: an operator by itself may take each
subnormal operand for zero, and give zero for a subnormal result. What lies there is taken for ours, and counted; what
is left over is as wrong as before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from assay.semantics.bounds import Bounded, contains
from assay.semantics.dtypes import dtype
from assay.semantics.left_open import exactly_known
from assay.verify.oracle.declarations import flushed, is_subnormal, with_steps
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
        zeros = None if self.accepts.holds or self.accepts.within else of_zeros(by, index)
        wide, standing = (wanted, ()) if zeros is None else zeros
        return with_zeros(
            before, strict, wide, got,
            lambda repaired: judge_result(tensor, by, strict, repaired, self.accepts, index), standing,
        )  # fmt: skip


def of_zeros(by: Applied, index: int) -> tuple[Any, Sequence[Array]] | None:
    """What an elementwise operator may give for operands that are known, with zeros for the subnormal ones, and numbers
    that may stand there too: zero for a subnormal result, and operands, which are equal to a zero that it gives by
    comparing. None where operands are not known, and all between these is possible."""
    known = by.known
    if by.op is None or by.op.family != "elementwise" or known is None:
        return None
    floats = [dtype(a.dtype).is_float for a in known]
    operands = [Bounded.exact(flushed(a)) if of else a for a, of in zip(known, floats, strict=True)]
    with np.errstate(all="ignore"):
        made = by.op.value(by.attrs, *operands)
    made = with_steps(by.op.name, _bounded(made[index] if isinstance(made, tuple) else made))
    standing = [np.where(_may_be_subnormal(made), 0.0, np.nan)]
    if by.op.name in COMPARE:
        low, high = made.interval()
        zero = (low <= 0) & (high >= 0)
        standing += [np.where(zero & is_subnormal(a), a, np.nan) for a in known]
    return made, standing


COMPARE = frozenset({"maximum", "minimum", "clip", "nn.relu", "nn.leakyrelu"})
"""Operators that give an operand by comparing."""


def with_zeros(
    finding: TensorFinding, strict: Any, wide: Any, got: Array, again: Callable[[Array], TensorFinding],
    standing: Sequence[Array] = (),
) -> TensorFinding:  # fmt: skip
    """The finding on a tensor that is wrong where subnormal numbers are kept, which `strict` allows, with the elements
    taken for ours that `wide` allows where they need not be, or that are one of those `standing` there; `again` judges
    a tensor where they are kept. Undecided where `wide` excludes nothing."""
    if not hasattr(wide, "dtype") or fits(finding.tensor, strict, got) or fits(finding.tensor, wide, got):
        return finding
    alone, wide = _bounded(strict), _bounded(wide)
    zeroed = (got == 0) & _may_be_subnormal(alone)
    stands = np.any([got == a for a in standing], axis=0) if standing else np.False_
    taken = zeroed | ((contains(wide, got) | stands) & ~contains(alone, got))
    if not taken.any():
        return finding
    repaired = np.where(taken, exactly_known(strict), got).astype(got.dtype)
    found = again(repaired)
    says_nothing = wide.vacuous if wide.of.is_float else wide.radius > 0
    loose = taken & ~zeroed & ~stands & says_nothing
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


def _may_be_subnormal(x: Bounded) -> Array:
    """Where every correct result is a subnormal number or zero; and where none is zero, and some are subnormal."""
    if not x.of.is_float:
        return np.zeros(x.shape, bool)
    low, high = x.interval()
    least = x.of.smallest_normal
    every = (low > -least) & (high < least) & ~((low == 0) & (high == 0))
    some = ((low > 0) & (low < least)) | ((high < 0) & (high > -least))
    return np.asarray(every | some)

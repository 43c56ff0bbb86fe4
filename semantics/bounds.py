"""Bounds: an interval for each number that every correct implementation must hit (rule M9; specs/semantics.md,
"Numbers").

An operator's one `value` function, run on `Bounded` operands instead of arrays, yields the operator's bound. The
error model is `assay.semantics.bounding.model`; the rules, one for each NumPy function, are its neighbours.

    x = Bounded.exact(array)              # float32, say
    y = np.tanh(x @ w + 1)                # intervals; computing in float32, in any order, cannot leave them
    contains(y, output_of_a_backend)      # the verdict, element by element

What is allowed: sums in any order and with multiply-add contracted; faithful instead of nearest rounding; elementary
functions within `ULPS`; a scale folded into a contraction (`SLACK`). What is not: a narrower accumulator, dropped
terms, flushed subnormals.

A bound that says nothing is not hidden: see `Bounded.vacuous`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from assay.semantics.arrays import is_plain
from assay.semantics.bounding import (
    affine_rules as affine_rules,
    affine_sums as affine_sums,
    affine_wholes as affine_wholes,
    functions as functions,
    logic as logic,
    movement as movement,
    pointwise as pointwise,
    sums as sums,
)
from assay.semantics.bounding.affine import as_a_whole as as_a_whole
from assay.semantics.bounding.core import FUNCTIONS as FUNCTIONS, UFUNCS as UFUNCS, Bounded as Bounded
from assay.semantics.bounding.exactness import where_exact as where_exact
from assay.semantics.bounding.logic import hull as hull
from assay.semantics.bounding.model import (
    SLACK as SLACK,
    U64,
    ULPS as ULPS,
    elementary as elementary,
    gamma as gamma,
    unit as unit,
)
from assay.semantics.bounding.movement import (
    off_place as off_place,
    steps as steps,
    to_integer as to_integer,
    whole_division as whole_division,
)
from assay.semantics.bounding.pointwise import difference as difference, rounded_literal as rounded_literal
from assay.semantics.bounding.rounding import not_below_zero
from assay.semantics.bounding.sums import running_sums as running_sums
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Crash


def contains(bounds: Bounded, array: Any) -> npt.NDArray[np.bool_]:
    """Element by element, whether `array` (same shape and dtype) is what a correct implementation may give.

    NaN matches a certain NaN, an infinity the same certain infinity; anything matches an infinite radius, but what was
    cast from a narrower float is a number of that. The sign of zero is not looked at (rule M9.3).
    """
    array = np.asarray(array)
    if array.shape != bounds.shape or dtype(array.dtype) is not bounds.of:
        raise Crash(f"intervals of {bounds.of}{bounds.shape} against an array of {array.dtype}{array.shape}")
    got, want = array.astype(np.float64), bounds.value
    with np.errstate(all="ignore"):
        # the difference is rounded: half an ulp of it, which a radius that is not zero can spare
        near = np.abs(got - want) * (1 - 4 * U64) <= bounds.radius
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    hit: npt.NDArray[np.bool_] = same | (near & np.isfinite(want)) | np.isinf(bounds.radius)
    if bounds.narrow is not None:
        with np.errstate(all="ignore"):
            hit = hit & (np.isnan(got) | (got.astype(bounds.narrow.numpy).astype(np.float64) == got))
    return hit


def erf(x: Any) -> Any:
    """The error function of an array, in its dtype, or of intervals."""
    if not is_plain(x):
        return x.by("erf")
    x = np.asarray(x)
    return pointwise.erf_array(x).astype(x.dtype)


def windows(x: Any, size: Sequence[int], strides: Sequence[int], dilation: Sequence[int]) -> Any:
    """All windows over the last len(size) axes of an array or of intervals, without copying.

    `x` has shape (*lead, *spatial); the result has shape (*lead, *out, *size), with
    out = (spatial - dilation * (size - 1) - 1) // strides + 1, or 0 where no window fits. It is read-only.
    """
    if isinstance(x, Bounded):
        value = windows(x.raw, size, strides, dilation)
        made = Bounded(value, 0 if x.is_exact else windows(x.radius, size, strides, dilation), x.of)
        return x.placed(made, lambda a: windows(a, size, strides, dilation))
    if not is_plain(x):
        return x.moved(lambda a: windows(a, size, strides, dilation))
    n = len(size)
    lead, spatial = x.shape[: x.ndim - n], x.shape[x.ndim - n :]
    spans = [d * (k - 1) + 1 for k, d in zip(size, dilation, strict=True)]
    out = [max(0, (s - span) // t + 1) for s, span, t in zip(spatial, spans, strides, strict=True)]
    steps = x.strides[x.ndim - n :]
    # NumPy's view function does not know all of the small dtypes: it is shown their bytes
    plain = x if x.dtype.isbuiltin == 1 else x.view(f"u{x.dtype.itemsize}")
    view = np.lib.stride_tricks.as_strided(
        plain,
        (*lead, *out, *size),
        (
            *x.strides[: x.ndim - n],
            *(b * t for b, t in zip(steps, strides, strict=True)),
            *(b * d for b, d in zip(steps, dilation, strict=True)),
        ),
        writeable=False,
    )
    return view.view(x.dtype)


def widen(y: Any, terms: Callable[[], Sequence[Any]], *, roundings: int = 0, absolute: Any = 0.0) -> Any:
    """`y`, which a correct implementation may also compute as a sum that has other `terms`, in any order.

    An array stays as it is, and so do whole numbers, of which no sum is rounded. Intervals grow by `absolute`, and by
    the sum of the terms' magnitudes times the error of `roundings` (default: the number of terms) and `SLACK` more. So
    formulas that are equal over the reals, such as a batch norm folded to x * s + t, are all correct.
    """
    if not isinstance(y, Bounded) or not y.of.is_float:
        return y
    with np.errstate(all="ignore"):
        total: Any = absolute
        values = list(terms())
        factor = gamma((roundings or len(values)) + SLACK, y.of)
        for term in values:
            total = total + factor * (np.abs(term.value) + term.radius)
        return y.widened(np.where(np.isfinite(y.value), np.nan_to_num(total, nan=np.inf, posinf=np.inf), 0.0))


def cut_at_zero(y: Any) -> Any:
    """`y`, of which no correct result is negative: intervals are cut off at 0, an array stays as it is."""
    return not_below_zero(y) if isinstance(y, Bounded) else y

"""The dot-product rule: errors of sums of products as a whole (specs/verify.md, "Verdict").

An interval cannot see that all elements are a little off in one direction, or all much more than roundings explain. So
the errors of many elements are looked at together, in half ulps of the sum of the magnitudes of their terms, which is
what the same operator gives on the magnitudes of its operands. Source: the TOSA specification's rule for dot products,
in our own words: the mean of the squares is at most 1.6 for each rounding, and the sum of N errors at most four of its
standard deviations.

Roundings that depend on each other, as in sums of equal numbers, add up otherwise. So this is asked only of at least
`ENOUGH` elements that differ, of data that vary, and of sums so short that no term is lost for being small.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod, sqrt
from typing import Any

import numpy as np

from assay.semantics.bounds import Bounded
from assay.semantics.dtypes import FLOAT64, DType, dtype
from assay.semantics.operator import Operator, Reasons
from assay.semantics.ops.contraction import BLOCK
from assay.verify.oracle.verdict import Worst, element_number

Array = np.ndarray[Any, Any]
Attrs = Mapping[str, Any]
ENOUGH = 1000
EACH = 4 * 0.4
"""Mean square of the error that one rounding adds: 0.4 is a little more than a third, the variance of a uniform error,
and rounding in any direction is twice as far off."""


def _axes_size(attrs: Attrs, args: Sequence[Array]) -> int:
    (x,) = args
    return prod(x.shape[a] for a in (range(x.ndim) if attrs["axis"] is None else attrs["axis"]))


TERMS: dict[str, Callable[[Attrs, Sequence[Array]], int]] = {
    "matmul": lambda attrs, args: args[0].shape[-1],
    **dict.fromkeys(
        ("nn.conv1d", "nn.conv2d", "nn.conv3d"), lambda attrs, args: prod(args[1].shape[1:]) + (len(args) > 2)
    ),
    "sum": _axes_size,
    "mean": lambda attrs, args: _axes_size(attrs, args) + 1,
    **{f"nn.avg_pool{r}d": lambda attrs, args: prod(attrs["pool_size"]) + 1 for r in (1, 2, 3)},
}
"""Roundings on the way to one element, where each accumulation rounds once in the operator's dtype."""

OTHERS: Reasons = {
    ("elementwise", "normalization", "movement", "selection", "creation"): "no element is one sum of operands",
    ("max", "min", "topk", *(f"nn.max_pool{r}d" for r in (1, 2, 3))): "it chooses",
    ("prod", "cumprod", "det"): "it multiplies",
    ("dft", "cumsum"): "its elements share their terms, so their errors are not independent",
}
"""The other operators, and why they are not here."""


def magnitudes(op: Operator, attrs: Attrs, args: Sequence[Array]) -> Array:
    """The same operator on the magnitudes of its operands, none below the least normal number, in float64."""
    least = dtype(args[0].dtype).smallest_normal

    def size(of: Array) -> Array:
        made = of.astype(np.float64)
        np.maximum(np.abs(made, out=made), least, out=made)
        return made

    if op.name == "matmul" and args[1].ndim == 2 and args[1].size > BLOCK:  # a matrix of weights, by columns
        step = max(1, BLOCK // args[1].shape[0])
        left = size(args[0])
        columns = (args[1][:, j : j + step] for j in range(0, args[1].shape[1], step))
        return np.concatenate([np.asarray(op.value(attrs, left, size(c))) for c in columns], axis=-1)
    return np.asarray(op.value(attrs, *map(size, args)))


def has_independent_roundings(terms: int, args: Sequence[Array], reference: Array, of: DType) -> bool:
    """Whether the roundings behind the elements may be taken for independent. In float64 there is no wider
    reference."""
    if (
        of is FLOAT64
        or reference.size < ENOUGH
        or terms * of.unit_roundoff > 1 / 16
        or not np.isfinite(reference).all()
    ):
        return False
    return all(map(_varies, args)) and np.unique(reference).size >= max(ENOUGH, reference.size // 2)


def _varies(a: Array) -> bool:
    """Whether the elements are mostly different numbers, not all nearly of one size."""
    some = np.abs(a.reshape(-1)[:: max(1, a.size // 4096)].astype(np.float64))
    some = some[some > 0]
    if some.size < 2:
        return a.ndim < 2  # a bias of zeros
    return bool(np.unique(some).size > some.size // 8 and np.std(some) > 0.02 * np.mean(some))


def wrong_together(
    op: Operator, attrs: Attrs, args: Sequence[Array], got: Array, tensor: str, allowed: Bounded
) -> tuple[str, Worst] | None:
    """What is wrong with all elements taken together, and the element that is most off."""
    of = dtype(got.dtype)
    if op.name not in TERMS or not of.is_float:
        return None
    reference, terms = allowed.value, max(1, TERMS[op.name](attrs, args))
    if not has_independent_roundings(terms, args, reference, of):
        return None
    with np.errstate(all="ignore"):
        size = magnitudes(op, attrs, args)
        e = (got.astype(np.float64) - reference) / np.maximum(size * of.unit_roundoff, of.smallest_normal)
    if not np.isfinite(e).all() or float(size.max()) >= float(of.max) / 4:
        return None
    count = e.size
    each = EACH * terms
    square = float(np.sum(e * e))
    said = ""
    if square > each * count:
        said = f"the mean square of the errors is {square / count:.3g}, of roundings it is at most {each:.3g}"
    elif len(args) < 3 and abs(float(np.sum(reference))) < 0.1 * float(np.sum(size)):
        # a bias, the same for many elements, leaves the same remainder in each of them: those errors do lean
        total = abs(float(np.sum(e)))
        most = sqrt(10 * each * count)
        if total > most:
            said = f"the errors add up to {total:.3g}, those of roundings to at most {most:.3g}: they lean to one side"
    if not said:
        return None
    at = tuple(int(i) for i in np.unravel_index(int(np.argmax(np.abs(e))), e.shape))
    low, high = allowed.interval()
    return f"{tensor}: {said}", Worst(
        tensor, at, element_number(got[at], of), element_number(low[at], of), element_number(high[at], of), 0.0
    )

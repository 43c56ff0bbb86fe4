"""How many elements of a tensor are how far off (specs/verify.md, "judge").

Bins are logarithmic. Errors are counted in units in the last place, and in units of each element's own bound: the first
says how good an implementation is, the second how much of what it may do it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from assay.semantics.bounds import Bounded, contains

Array = np.ndarray[Any, Any]

BINS = 18
"""Bins of a histogram of errors: none, up to 1, 2, 4, ... 2^15 units in the last place, and all beyond."""
LEAST_SHARE = -10
"""The exponent of the smallest part of a bound that has a bin of its own."""
SHARES = 3 - LEAST_SHARE
"""Bins of a histogram in units of the bound: no error, up to 2^-10, 2^-9, ... 1 of the bound, and all outside of it."""


def by_ulps(off: Array) -> list[int]:
    """How many of these errors, in units in the last place, are in each of `BINS`."""
    with np.errstate(divide="ignore"):
        place = np.where(off > 0, np.ceil(np.log2(np.maximum(off, 1.0))) + 1, 0)
    return _counted(np.minimum(place, BINS - 1), BINS)


def by_bound(allowed: Bounded | Array, got: Array) -> list[int]:
    """How many elements are in each of `SHARES`; of those alone whose bound excludes something, and nothing where there
    are none. What is outside is what `contains` says: the same that decides the verdict."""
    want, have = (a.astype(np.float64) for a in (_middle(allowed), got))
    same = (have == want) | (np.isnan(have) & np.isnan(want))
    if not isinstance(allowed, Bounded):
        return _counted(np.where(same, 0, SHARES - 1), SHARES)
    told = ~allowed.vacuous
    if not told.any():
        return []
    with np.errstate(all="ignore"):
        share = np.abs(have - want) / allowed.radius
        place = np.ceil(np.log2(np.clip(share, 2.0**LEAST_SHARE, 1.0))) - LEAST_SHARE + 1
    place = np.where(same, 0, np.where(contains(allowed, got), place, SHARES - 1))
    return _counted(place[told], SHARES)


def shares_text(counts: Sequence[int]) -> list[tuple[str, int]]:
    """What each bin of `by_bound` is called, with its count; nothing of none."""
    names = ["no error", *(f"up to {2.0**e:g}" for e in range(LEAST_SHARE, 1)), "outside"]
    return list(zip(names, counts, strict=True)) if counts else []


def ulps_text(counts: Sequence[int]) -> list[tuple[str, int]]:
    """What each bin of `by_ulps` is called, with its count; nothing of none."""
    names = ["no error", *(f"up to {2**e}" for e in range(BINS - 2)), f"more than {2 ** (BINS - 3)}"]
    return list(zip(names, counts, strict=True)) if counts else []


def _middle(allowed: Bounded | Array) -> Array:
    return allowed.value if isinstance(allowed, Bounded) else allowed


def _counted(places: Array, bins: int) -> list[int]:
    return [int(c) for c in np.bincount(places.astype(np.int64).ravel(), minlength=bins)]

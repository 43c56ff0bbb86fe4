"""Bounds of casts to narrower floats: a known number becomes itself, or one of its neighbours (rule M9)."""

from __future__ import annotations

import numpy as np
import pytest

from assay.semantics.bounds import Bounded, contains
from assay.semantics.dtypes import DTYPES, DType

NARROW = [d for d in DTYPES.values() if d.is_float and d.bits < 32 and d.name != "float8_e8m0fnu"]


def numbers(of: DType) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Every finite number of a dtype."""
    bits = np.arange(1 << of.bits, dtype=np.uint8 if of.bits <= 8 else np.uint16)
    with np.errstate(all="ignore"):
        every = bits.view(of.numpy).astype(np.float64)
    return np.unique(every[np.isfinite(every)])


@pytest.mark.parametrize("of", NARROW, ids=str)
def test_what_the_dtype_has_is_kept_and_nothing_else_is_right(of: DType) -> None:
    every = numbers(of)
    cast = Bounded.exact(every.astype(np.float32)).astype(of.numpy)
    low, high = cast.interval()
    assert (low == every).all() and (high == every).all()
    wrong = np.roll(every, 1).astype(of.numpy)  # the number before
    assert not contains(cast, wrong).any()


@pytest.mark.parametrize("of", NARROW, ids=str)
def test_between_two_numbers_both_are_right_and_those_beyond_are_not(of: DType) -> None:
    every = numbers(of)
    below, above = every[:-1], every[1:]
    for part in (0.01, 0.5, 0.99):
        x = (below + (above - below) * part).astype(np.float32)
        inside = (x > below) & (x < above)
        cast = Bounded.exact(x).astype(of.numpy)
        for right in (below, above, x):
            assert contains(cast, right.astype(of.numpy))[inside].all()
        beyond = contains(cast, np.roll(every, 1)[:-1].astype(of.numpy)) | contains(
            cast, np.roll(every, -2)[:-1].astype(of.numpy)
        )
        smaller = np.minimum(np.abs(below), np.abs(above))
        next_to = np.frexp(smaller)[0] == 0.5  # a power of two, on whose other side the numbers stand closer
        assert not (beyond & inside & ~next_to).any()

"""What is exact has one value; what is rounded has an interval, however little it is off."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from assay.semantics.bounds import Bounded
from assay.semantics.dtypes import dtype
from assay.semantics.ops import operator

DTYPES = (np.float32, np.float16, ml_dtypes.bfloat16, np.float64)


@pytest.mark.parametrize("of", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide"])
def test_a_result_is_certain_exactly_where_it_is_exact(name: str, of: Any) -> None:
    """By fractions, over few digits and many, near and far."""
    rng = np.random.default_rng(1)
    bits = np.array([1, 2, 3, 5, 8, 12, 24, 40, 53])[rng.integers(0, 9, 400)]
    numbers = (
        rng.integers(1, 2.0**bits, 400, endpoint=True) * np.exp2(rng.integers(-6, 7, 400)) * rng.choice([-1, 1], 400)
    )
    with np.errstate(over="ignore"):
        a, b = np.asarray(numbers[:200]).astype(of), np.asarray(numbers[200:]).astype(of)
    result = operator(name).value({}, Bounded.exact(a), Bounded.exact(b))
    with np.errstate(all="ignore"):
        plain = np.asarray(operator(name).value({}, a, b)).astype(np.float64)
    count = 0
    for x, y, z, radius in zip(a.astype(float), b.astype(float), plain, result.radius, strict=True):
        if not np.isfinite([x, y, z]).all() or abs(z) < dtype(of).smallest_normal:
            continue
        p, q = Fraction(x), Fraction(y)
        exact = {"add": p + q, "subtract": p - q, "multiply": p * q, "divide": p / q}[name] == Fraction(z)
        assert (radius == 0) == exact, (x, y, z, radius)
        count += exact
    assert count > 10, "some are"


def test_a_mean_may_be_a_product_with_a_rounded_reciprocal() -> None:
    x = Bounded.exact(np.array([4, 5, 6], np.float32))
    assert operator("mean").value({"axis": None, "keepdims": False}, x).radius > 0


def test_what_is_off_stays_off() -> None:
    x = Bounded(np.array([4.0, 4.0]), np.array([0.0, 1e-7]), dtype("float32"))
    assert (operator("divide").value({}, x, np.array([2, 2], np.float32)).radius > 0).tolist() == [False, True]


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide"])
def test_tensors_of_many_axes(name: str) -> None:
    """Some of NumPy's functions end at 32 axes, arrays at 64."""
    a, b = Bounded.exact(np.full((1,) * 64, 1, np.float32)), Bounded.exact(np.full((1,) * 40, 3, np.float32))
    assert operator(name).value({}, a, b).shape == (1,) * 64

"""Intervals are as narrow as the values in them: what an operation says of an interval is not much more than it does to
the numbers of the interval."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from assay.semantics.bounds import Bounded, contains
from assay.semantics.dtypes import FLOAT32, FLOAT64, DType
from tests.semantics.bounding.intervals import BINARY, F32, INF, NAN, UNARY, Array

SLOW = ("sin", "cos")
"""Of which only is said that they move by no more than their operand."""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def some(rng: np.random.Generator, domain: tuple[float, float], of: DType) -> tuple[Bounded, Array]:
    """Intervals within a domain, of every width and without any, and 17 points of each."""
    low, high = domain
    centre = rng.uniform(low, high, 60)
    radius = np.minimum(0.99 * np.minimum(centre - low, high - centre), rng.choice([0.0, 1e-3, 0.1, 1.0], 60))
    return Bounded(centre, radius, of), centre + radius * np.linspace(-1, 1, 17)[:, None]


def assert_tight(name: str, bounds: Bounded, values: Array, ulps: Any = 1.0) -> None:
    """No further from the middle than the values, but for the error of one step, and for the slack of float64."""
    reach = np.abs(values - bounds.value).max(axis=0)
    unit = 2.001 * ulps * bounds.of.unit_roundoff + 1e-15 * (1 + ulps)
    assert (bounds.radius <= reach * (1 + 1e-9) + unit * (np.abs(bounds.value) + 2 * reach) + 1e-44).all(), name
    assert (bounds.value >= values.min(axis=0) - unit).all() and (bounds.value <= values.max(axis=0) + unit).all()


@pytest.mark.parametrize("of", [FLOAT32, FLOAT64], ids=str)
@pytest.mark.parametrize("name", [n for n in UNARY if n not in SLOW])
def test_unary(name: str, of: DType) -> None:
    f, domain = UNARY[name]
    x, points = some(np.random.default_rng(1), domain, of)
    assert_tight(name, f(x), f(points), 5.0)


@pytest.mark.parametrize("of", [FLOAT32, FLOAT64], ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str, of: DType) -> None:
    f, first, second = BINARY[name]
    rng = np.random.default_rng(2)
    (a, p), (b, q) = some(rng, first, of), some(rng, second, of)
    factor = 5.0 * (1 + np.abs(b.value * np.log(np.abs(a.value)))) if name == "power" else 1.0
    assert_tight(name, f(a, b), f(p[:, None], q).reshape(-1, a.size), factor)
    assert_tight(name, f(a, Bounded(b.value, 0, of)), f(p, b.value), factor)
    assert_tight(name, f(Bounded(a.value, 0, of), b), f(a.value, q), factor)


@pytest.mark.parametrize("name", SLOW)
def test_waves(name: str) -> None:
    f, domain = UNARY[name]
    x, points = some(np.random.default_rng(3), domain, FLOAT64)
    assert (f(x).radius <= x.radius * (1 + 1e-9) + 1e-14).all()
    assert contains(f(Bounded(np.zeros(1), 9.0, FLOAT64)), np.ones(1)).all()
    assert f(Bounded(np.zeros(1), 9.0, FLOAT64)).radius <= 2 + 1e-14


@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_what_is_known_is_known_beside_what_is_not(name: str) -> None:
    """An element's interval does not depend on the others of its tensor."""
    f = UNARY[name][0] if name in UNARY else BINARY[name][0]
    plain = np.array([0.75, 1.25, 0.5, 1.0])
    wide = np.array([0.1, 0.0, 0.2, 0.0])
    odd, loose = np.array([NAN, -INF, 1e300, 0.25]), np.array([0.0, 0.0, 0.0, INF])
    other = [] if name in UNARY else [np.array([1.5, -0.5, 2.0, 3.0] * 2)]
    alone = f(Bounded(plain, wide, FLOAT64), *(o[:4] for o in other))
    both = f(Bounded(np.concatenate([plain, odd]), np.concatenate([wide, loose]), FLOAT64), *other)
    assert np.array_equal(both.value[:4], alone.value, equal_nan=True) or name in ("acosh", "power")
    assert np.array_equal(np.isinf(both.radius[:4]), np.isinf(alone.radius))
    there = np.isfinite(alone.radius)
    assert np.allclose(both.radius[:4][there], alone.radius[there], rtol=1e-9)


def test_cosh_of_what_may_be_anything_large_or_zero_is_not_certain() -> None:
    """From [-1000, 1000] comes 1, too; from [900, 1000] only what overflows."""
    y = np.cosh(Bounded(np.array([0.0, 950.0]), np.array([1000.0, 50.0]), FLOAT32))
    assert contains(y, np.array([1.0, INF], F32)).all() and not contains(y, np.array([1.0, 5.0], F32))[1]


OVERFLOWING: dict[str, tuple[Callable[..., Any], Array]] = {
    "exp": (np.exp, np.array([80.0, 100.0])),
    "sinh": (np.sinh, np.array([80.0, 100.0])),
    "square": (np.square, np.array([1e19, 3e19])),
    "double": (lambda x: x * F32(2), np.array([1e38, 3e38])),
    "twice": (lambda x: x + x, np.array([1e38, 3e38])),
}


@pytest.mark.parametrize(
    ("name", "sign"), [(n, s) for n in OVERFLOWING for s in (1.0, -1.0) if s > 0 or n not in ("exp", "square")]
)
def test_what_overflows_is_certain_or_open(name: str, sign: float) -> None:
    """Far below the largest number the interval is finite, far above it is the infinity, and across it is open."""
    f, (low, high) = OVERFLOWING[name]
    middle = (low + high) / 2
    x = Bounded(sign * np.array([low, high, middle]), np.array([low * 1e-3, high * 1e-3, middle - low]), FLOAT32)
    y = f(x)
    assert np.isinf(y.radius).tolist() == [False, False, True]
    assert np.isfinite(y.value[0]) and y.value[1] == sign * INF and y.radius[1] == 0

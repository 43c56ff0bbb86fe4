"""Intervals of integers and truth values against every number in them: comparisons, choices, conversions, moves."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from assay.semantics.bounding.movement import holds
from assay.semantics.bounds import Bounded, contains, hull
from assay.semantics.dtypes import BOOL, DTYPES, FLOAT32, FLOAT64, INT64, DType
from assay.semantics.errors import Crash, Trap, Unpredictable
from tests.semantics.bounding.intervals import F32, INF, NAN

INT8, UINT8 = DTYPES["int8"], DTYPES["uint8"]
SMALL = [(a, b) for a in range(-1, 3) for b in range(a, 3)]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def interval(low: float, high: float, of: DType) -> Bounded:
    return Bounded(np.array([(low + high) / 2]), np.array([(high - low) / 2]), of)


def ends(x: Any) -> tuple[float, float]:
    """The least and the greatest element of one interval, or of an array of one number."""
    low, high = x.interval() if isinstance(x, Bounded) else (x, x)
    return float(low[0]), float(high[0])


COMPARISONS = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]


@pytest.mark.parametrize("op", COMPARISONS)
def test_comparisons_say_what_every_pair_says(op: Callable[[Any, Any], Any]) -> None:
    for (a, b), (c, d) in product(SMALL, SMALL):
        every = [op(x, y) for x in range(a, b + 1) for y in range(c, d + 1)]
        assert ends(op(interval(a, b, INT64), interval(c, d, INT64))) == (all(every), any(every)), (a, b, c, d)


def test_nothing_is_known_of_what_is_compared_with_nothing() -> None:
    """Not even that an infinity is not less: a vacuous interval may be NaN."""
    nothing = Bounded(np.array([1.0]), INF, FLOAT32)
    for op, end in product(COMPARISONS, (INF, -INF)):
        most = Bounded.exact(np.array([end], F32))
        assert ends(op(most, nothing)) == ends(op(nothing, most)) == (0, 1)


TRUTHS = {(0, 0): [False], (1, 1): [True], (0, 1): [False, True]}


@pytest.mark.parametrize("op", [np.logical_and, np.logical_or, np.logical_xor])
def test_truth_values_are_three(op: Callable[[Any, Any], Any]) -> None:
    for (a, p), (b, q) in product(TRUTHS.items(), TRUTHS.items()):
        every = [bool(op(x, y)) for x in p for y in q]
        assert ends(op(interval(*a, BOOL), interval(*b, BOOL))) == (all(every), any(every)), (a, b)


def test_all_any_and_not() -> None:
    for values in product(TRUTHS, repeat=2):
        x = Bounded(np.array([(a + b) / 2 for a, b in values]), np.array([(b - a) / 2 for a, b in values]), BOOL)
        for f in (np.all, np.any):
            every = [bool(f(v)) for v in product(*(TRUTHS[v] for v in values))]
            found = f(x, keepdims=True)
            assert ends(found) == (all(every), any(every))
        assert ends((~x)[:1]) == (1 - values[0][1], 1 - values[0][0])


def test_an_undecided_choice_holds_both_and_no_more() -> None:
    either = interval(0, 1, BOOL)
    for (a, b), (c, d) in product(SMALL, SMALL):
        found = ends(np.where(either, interval(a, b, INT64), interval(c, d, INT64)))
        assert found == pytest.approx((min(a, c), max(b, d)), rel=1e-12, abs=1e-12)
    x = Bounded(np.array([3.0]), np.array([0.5]), FLOAT32)
    assert ends(np.where(either, 1.0, x)) == pytest.approx((1.0, 3.5)) and ends(
        np.where(either, x, 1.0)
    ) == pytest.approx((1.0, 3.5))


def test_a_decided_choice_is_the_branch_as_it_is() -> None:
    exact, loose = Bounded.exact(np.array([1.0, 2.0], F32)), Bounded(np.array([5.0, 6.0]), 0.5, FLOAT32)
    first = np.array([True, False])
    assert np.where(first, exact, loose).radius.tolist() == [0, 0.5]
    assert np.where(first, loose, exact).radius.tolist() == [0.5, 0]
    assert np.where(first, exact, exact).is_exact


@pytest.mark.parametrize(
    ("a", "b", "value", "radius"),
    [
        ((1, 0), (1, 0), 1, 0), ((1, 0), (1, 1), 1, 1), ((NAN, 0), (NAN, 0), NAN, 0), ((INF, 0), (INF, 0), INF, 0),
        ((NAN, 0), (1, 0), 0, INF), ((1, 0), (NAN, 0), 0, INF), ((INF, 0), (1, 0), 0, INF),
            ((INF, 0), (-INF, 0), 0, INF),
        ((1, 0), (2, INF), 0, INF), ((0, 1), (4, 2), 2.5, 3.5),
    ],
)  # fmt: skip
def test_the_hull_of_two(a: tuple[float, float], b: tuple[float, float], value: float, radius: float) -> None:
    """Exact infinities and NaN stay where both are the same; else nothing is known. It is taken where it is asked
    for."""
    x, y = (Bounded(np.array([v, v]), np.array([r, r], np.float64), FLOAT64) for v, r in (a, b))
    found = hull(x, y, np.array([True, False]))
    assert found.value == pytest.approx([value, a[0]], nan_ok=True) and found.radius == pytest.approx([radius, a[1]])


def test_the_hull_is_rounded_outwards() -> None:
    rng = np.random.default_rng(0)
    x, y = (Bounded(rng.standard_normal(300), np.abs(rng.standard_normal(300)) * 0.1, FLOAT64) for _ in range(2))
    found = hull(x, y, np.ones(300, bool))
    for v, r, *low_high in zip(found.value, found.radius, *x.interval(), *y.interval(), strict=True):
        assert Fraction(v) - Fraction(r) <= min(low_high) and max(low_high) <= Fraction(v) + Fraction(r)


# --- integers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("of", [INT8, UINT8], ids=str)
@pytest.mark.parametrize("f", [np.negative, np.absolute, np.sign])
def test_integers_wrap_or_are_known(f: Callable[[Any], Any], of: DType) -> None:
    low, high = int(of.min), int(of.max)
    marks = sorted({low, low + 1, max(low, -3), 0, 1, 2, high - 1, high})
    for a, b in ((a, b) for a in marks for b in marks if a <= b):
        points = f(np.arange(a, b + 1).astype(of.numpy))
        given = [interval(a, b, of)] + ([Bounded.exact(np.array([a]).astype(of.numpy))] if a == b else [])
        for x in given:
            y = f(x)
            assert all(contains(y, points[i : i + 1]).all() for i in range(len(points))), (a, b)
            reach = (float(points.max()) - float(points.min())) / 2
            wraps = f is not np.sign and (a == low if of is INT8 else f is np.negative and b > 0)
            assert y.radius[0] <= reach * (1 + 1e-12) or (wraps and not x.is_exact), (a, b)


@pytest.mark.parametrize("to", [INT8, UINT8], ids=str)
def test_floats_become_the_integers_they_are_cut_to(to: DType) -> None:
    """An interval that is out of range for certain traps, one that may be out of range may be anything."""
    low, high = int(to.min), int(to.max)
    marks = [
        low - 1.5,
        low - 1.0,
        low - 0.5,
        float(low),
        0.5,
        3.0,
        3.9,
        high - 0.5,
        float(high),
        high + 0.5,
        high + 1.0,
    ]
    for a, b in ((a, b) for a in marks for b in marks if a <= b):
        x = interval(a, b, FLOAT64)
        if b <= low - 1 and np.trunc(x.interval()[1][0]) < low or np.trunc(x.interval()[0][0]) > high:
            with pytest.raises(Trap, match="out of the range"):
                x.astype(to.numpy)
            continue
        found = x.astype(to.numpy)
        if low - 1 < a and b < high + 1:
            least, most = ends(found)
            assert (
                least <= np.trunc(a)
                and np.trunc(b) <= most
                and most - least <= np.trunc(b) - np.trunc(a) + (2 if a != b else 0)
            )
        else:
            assert isinstance(found, Bounded) and np.isinf(found.radius).all()
    exact = Bounded.exact(np.array([low, high, 3], np.float64)).astype(to.numpy)
    assert isinstance(exact, np.ndarray) and exact.dtype == to.numpy and exact.tolist() == [low, high, 3]


def test_large_integers_are_exact() -> None:
    top = np.array([2.0**63, 2.0**64 - 2048], np.float64)
    assert Bounded.exact(top).astype(np.uint64).tolist() == [2**63, 2**64 - 2048]
    assert Bounded.exact(-top[:1]).astype(np.int64).tolist() == [-(2**63)]
    loose = Bounded(np.array([2.0**60]), np.array([2.0**10]), FLOAT64).astype(np.int64)
    assert ends(loose)[0] <= 2**60 - 2**10 and ends(loose)[1] >= 2**60 + 2**10 and loose.radius[0] < 2**11


# --- conversions of floats -----------------------------------------------------------------------------------------

NARROW = [d for d in DTYPES.values() if d.bits in (8, 16) and d is not BOOL]


def every(of: DType) -> Any:
    if of.is_float:
        return np.arange(1 << of.bits, dtype=f"u{of.bits // 8}").view(of.numpy)
    return np.arange(int(of.min), int(of.max) + 1).astype(of.numpy)


@pytest.mark.parametrize(
    "to", [d for d in DTYPES.values() if d.is_float and d.bits > 8 or d.name == "float8_e4m3fn"], ids=str
)
def test_a_dtype_holds_another_if_it_has_all_of_its_numbers(to: DType) -> None:
    for of in NARROW:
        values = every(of).astype(np.float64)
        brute = np.array_equal(values.astype(to.numpy).astype(np.float64), values, equal_nan=True)
        if of.name == "float8_e8m0fnu":  # a scale, of which is said no more than must be
            brute = to is FLOAT64
        assert holds(to, of) == brute, (to, of)
    assert holds(FLOAT64, DTYPES["int32"]) and not holds(FLOAT32, DTYPES["int32"]) and not holds(FLOAT64, INT64)
    assert holds(to, BOOL)


def test_an_exact_number_stays_exact_in_what_holds_it() -> None:
    x = Bounded.exact(np.array([0.1, 3.0], F32))
    assert x.astype(np.float32) is x and x.astype(np.float64).is_exact
    wide = Bounded(np.array([0.5]), np.array([0.25]), FLOAT32).astype(np.float64)
    assert wide.radius.tolist() == [0.25]
    assert np.pad(x.astype(np.float64), (0, 1), constant_values=0.1).value[-1] == 0.1
    assert np.pad(x, (0, 1)).raw.dtype == F32 and np.pad(x, (0, 1)).is_exact
    assert np.pad(Bounded(np.ones(2), 0.5, FLOAT32), 1, constant_values=7.0).radius.tolist() == [0, 0.5, 0.5, 0]


# --- moves -------------------------------------------------------------------------------------------------------


def test_moves_keep_what_is_exact_and_what_is_not() -> None:
    exact, loose = Bounded.exact(np.array([1.0, 2.0], F32)), Bounded(np.array([5.0, 6.0]), 0.5, FLOAT32)
    assert np.concatenate([exact, exact]).is_exact and np.stack([exact, exact]).is_exact
    assert np.concatenate([exact, loose]).radius.tolist() == [0, 0, 0.5, 0.5]
    assert np.concatenate([loose, exact]).radius.tolist() == [0.5, 0.5, 0, 0]
    assert all(p.is_exact for p in np.split(exact, 2)) and [p.radius.tolist() for p in np.split(loose, 2)] == [
        [0.5],
        [0.5],
    ]
    assert exact[1:].is_exact and loose[1:].radius.tolist() == [0.5]


def test_an_index_that_is_open_is_refused() -> None:
    x, at = Bounded.exact(np.arange(4.0)), interval(0, 2, INT64)
    with pytest.raises(Unpredictable, match=r"bounds\.C4"):
        x[at]
    low, high = np.take(x, at).interval()
    assert -0.1 < low <= 0 and 2 <= high < 2.1, "what holds all that may be taken"
    with pytest.raises(Unpredictable, match=r"bounds\.C4"):
        np.take(Bounded.exact(np.arange(200.0)), interval(0, 150, INT64))


def test_likes() -> None:
    x = Bounded.exact(np.ones((2, 3), F32))
    assert np.size(x, 0) == 2 and np.size(x, 1) == 3 and np.size(x) == 6
    assert np.full_like(x, 2.0, shape=(4,)).shape == (4,) and isinstance(np.full_like(x, 2.0), Bounded)
    assert isinstance(np.full_like(x, 2, dtype=np.int64), np.ndarray)
    assert np.ones_like(x).value.tolist() == [[1, 1, 1]] * 2 and not np.zeros_like(x).value.any()


def test_the_truth_of_an_interval_is_asked_of_one_truth_value() -> None:
    assert not bool(interval(0, 0, BOOL)) and bool(interval(1, 1, BOOL))
    for x in (Bounded(np.ones(2), 0, BOOL), interval(1, 1, INT64)):
        with pytest.raises(Exception, match="truth of"):
            bool(x)


def test_a_radius_is_vacuous_from_the_largest_magnitude_on() -> None:
    x = Bounded(np.array([2.0, 2.0, 2.0, NAN, INF]), np.array([2.0, 2.0000001, INF, 0.0, 0.0]), FLOAT32)
    assert x.vacuous.tolist() == [False, True, True, False, False]
    assert (
        not Bounded(np.zeros(2), 0.0, FLOAT32).vacuous.any() and not Bounded(np.zeros(2), 1e-40, FLOAT32).vacuous.any()
    )


def test_what_is_exact_is_said_and_takes_no_memory() -> None:
    data = np.ones(3)
    assert np.shares_memory(Bounded.exact(data).value, data) and not Bounded(data, 1, FLOAT64).is_exact
    assert repr(Bounded.exact(np.zeros(1001))) == "Bounded((1001,), float64)" and "+-" in repr(
        Bounded.exact(np.zeros(1000))
    )


def test_reductions_by_a_ufunc() -> None:
    x = Bounded.exact(np.arange(6.0).reshape(2, 3))
    assert np.add.reduce(x).value.tolist() == [3, 5, 7] and np.maximum.reduce(x, axis=1).value.tolist() == [2, 5]
    assert np.add(x, x, dtype=np.float64).value[1, 2] == 10
    for wrong in (np.subtract.reduce, np.add.accumulate):
        with pytest.raises(Crash, match="no rule"):
            wrong(x)


@pytest.mark.parametrize("f", [np.arcsin, np.arccos, np.arctanh])
def test_between_two_ends_where_a_function_is_not_defined_it_may_be(f: Callable[[Any], Any]) -> None:
    y = f(Bounded(np.array([0.0, 3.0, 0.9]), np.array([2.0, 0.5, 0.5]), FLOAT32))
    assert np.isinf(y.radius).tolist() == [True, False, True] and np.isnan(y.value[1])
    below = np.arccosh(Bounded(np.array([0.5]), np.array([0.25]), FLOAT32))
    assert np.isnan(below.value[0]) and below.radius[0] == 0


def test_the_tangent_of_a_large_number_is_known() -> None:
    y = np.tan(Bounded(np.array([2.0**41, 2.0**41]), np.array([0.0, 1e-3]), FLOAT32))
    assert np.isinf(y.radius).tolist() == [False, True]


def test_an_index_that_may_be_outside_takes_what_is_there() -> None:
    """A run in which it is outside ends there; what any other takes is held."""
    x = np.array([10.0, 20.0, 30.0], np.float32)
    for low, high, least, most in ((1, 5, 20, 30), (-2, 1, 10, 20), (-4, 9, 10, 30), (2, 2, 30, 30)):
        found = ends(np.take(Bounded.exact(x), interval(low, high, INT64), axis=0))
        assert found == pytest.approx((least, most))

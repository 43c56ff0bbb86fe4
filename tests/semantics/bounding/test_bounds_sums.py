"""Sums, products and extremes of intervals where a term is no finite interval, underflows, or may overflow."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

from assay.semantics.bounding import sums
from assay.semantics.bounding.model import elementary, overflow_at
from assay.semantics.bounds import Bounded, contains, cut_at_zero, erf, gamma, unit, widen, windows
from assay.semantics.dtypes import DTYPES, FLOAT32, FLOAT64, INT64
from tests.semantics.bounding.intervals import F32, INF, NAN

TOP = float(FLOAT32.max)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def b(values: Any, radius: Any = 0.0, of: Any = FLOAT32) -> Bounded:
    return Bounded(
        np.array(values, np.float64), np.broadcast_to(np.array(radius, np.float64), np.shape(values)).copy(), of
    )


PRODUCTS: dict[str, tuple[Bounded, Bounded, float, bool]] = {
    "finite": (b([1, 2]), b([3, 4]), 11, True),
    "an infinity": (b([INF, 1]), b([2, 1]), INF, True),
    "against what is not zero": (b([INF, 1]), b([2, 1], 0.5), INF, True),
    "against what may be zero": (b([INF, 1]), b([0.5, 1], 0.5), INF, False),
    "what may be zero against it": (b([0.5, 1], 0.5), b([INF, 1]), INF, False),
    "against zero itself": (b([INF, 1]), b([0, 1]), NAN, True),
    "NaN": (b([NAN, 1]), b([1, 1], 0.5), NAN, True),
    "anything": (b([1, 1], [INF, 0]), b([0, 1]), 1, False),
    "against anything": (b([0, 1]), b([1, 1], [INF, 0]), 1, False),
    "an overflow": (b([TOP, TOP]), b([1, 1]), 0, False),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_is_certain_or_open(name: str) -> None:
    x, y, value, known = PRODUCTS[name]
    found = x @ y
    assert np.isfinite(found.radius) == known
    if known:
        assert found.value == value or (np.isnan(value) and np.isnan(found.value))
        assert np.isfinite(value) or found.radius == 0


def test_a_sum_is_certain_or_open() -> None:
    rows = b(
        [[1, INF], [1, -INF], [INF, -INF], [NAN, 1], [1, 1], [TOP, TOP], [1, 2]],
        [[0, 0], [0.5, 0], [0, 0], [0, 0], [INF, 0], [0, 0], [0.5, 0]],
    )
    found = np.sum(rows, axis=1)
    assert np.isinf(found.radius).tolist() == [False] * 4 + [True, True, False]
    assert found.value[:2].tolist() == [INF, -INF] and np.isnan(found.value[2:4]).all() and not found.radius[:4].any()
    assert 0.5 <= found.radius[6] < 0.5001


def test_a_sum_of_what_is_not_negative_is_not() -> None:
    rows = b([[0.5, 0.5], [0.5, 0.4]], [[0.5, 0.5], [0.5, 0.5]])
    low, high = np.sum(rows, axis=1).interval()
    assert low[0] == 0 and low[1] < -0.09 and (high < 2.001).all()
    alone = np.sum(rows[:1], axis=1)
    assert alone.interval()[0][0] == 0 and np.sum(b([[3.0, 4.0]], 0.5), axis=1).interval()[0][0] > 5.9


def test_reductions_over_one_and_over_none() -> None:
    exact = Bounded.exact(np.array([[2.0], [3.0]], F32))
    assert np.sum(exact, axis=1).is_exact and np.prod(exact, axis=1).is_exact and np.sum(exact[:, :0], axis=1).is_exact
    assert np.sum(b([[2.0]], 0.5), axis=1).radius.tolist() == [0.5]
    assert 0.5 <= np.prod(b([[2.0]], 0.5), axis=1).radius[0] < 0.51
    assert np.prod(exact[:, :0], axis=1).value.tolist() == [1, 1]
    nothing = np.mean(exact[:, :0], axis=1)
    assert nothing.shape == (2,) and np.isinf(nothing.radius).all()
    assert np.mean(b([[2.0, 4.0]]), axis=1, keepdims=True).shape == (1, 1)


def test_products_of_many() -> None:
    cases = [
        ([INF, 2], 0.0, INF, True),
        ([INF, 2], 3.0, 0, False),
        ([INF, 0], 0.0, NAN, True),
        ([NAN, 2], 0.5, NAN, True),
        ([1, 2], INF, 0, False),
    ]
    cases += [([TOP, 2], 0.0, 0, False), ([TOP / 4, 2], 0.0, TOP / 2, True), ([INF, 1e-45], 0.0, INF, False)]
    for values, radius, value, known in cases:
        found = np.prod(b([values], [[0.0 if np.isinf(v) and radius != INF else radius for v in values]]), axis=1)
        assert np.isfinite(found.radius[0]) == known, (values, radius)
        assert not known or found.value[0] == value or np.isnan(value)
    tiny = np.prod(b([[1e-30, 1e-20]]), axis=1)
    assert contains(tiny, np.zeros(1, F32)).all() and tiny.radius[0] < 1e-43
    whole = np.prod(Bounded(np.array([[2.0**30, 2.0**22], [2.0**30, 2.0**23]]), 0, INT64), axis=1)
    assert np.isinf(whole.radius).tolist() == [False, True]


def test_extremes() -> None:
    rows = b([[1.0, 2.0], [1.0, 2.0], [NAN, 1.0], [1.0, 5.0]], [[0.1, 0.5], [3.0, 0.0], [0, 0], [INF, 0]])
    most, least = np.max(rows, axis=1), np.min(rows, axis=1)
    assert np.isinf(most.radius).tolist() == [False, False, False, True] == np.isinf(least.radius).tolist()
    for found, low, high in ((most, (1.5, 2.0), (2.5, 4.0)), (least, (0.9, -2.0), (1.1, 2.0))):
        assert (found.interval()[0][:2] <= low).all() and (found.interval()[1][:2] >= high).all()
        reach = np.maximum(np.array(high) - found.value[:2], found.value[:2] - np.array(low))
        assert found.radius[:2] == pytest.approx(reach) and np.isnan(found.value[2]) and found.radius[2] == 0
    assert np.max(b([[1.0]]), axis=1, initial=3.0).value.tolist() == [3] and np.min(
        b([[1.0]]), axis=1, initial=-3.0
    ).value.tolist() == [-3]
    signs = np.max(Bounded.exact(np.array([[0.0, -0.0], [1.0, 2.0]], F32)), axis=1)
    assert not signs.is_exact and np.max(Bounded.exact(np.ones((1, 2), F32)), axis=1).is_exact


def test_only_large_matrices_of_another_dtype_are_taken_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    joined = sums._joined
    monkeypatch.setattr(sums, "BLOCK", 20)
    monkeypatch.setattr(sums, "_joined", lambda parts, axis: calls.append(len(parts)) or joined(parts, axis))  # type: ignore[func-returns-value]
    w = Bounded.exact(np.arange(28.0, dtype=F32).reshape(4, 7))
    x = Bounded.exact(np.ones((3, 4), F32))
    assert (x @ w).shape == (3, 7) and calls == [2]
    assert (w.transpose() @ x.transpose()).shape == (7, 3) and calls == [2, 2]
    assert contains(x @ w, (np.ones((3, 4), F32) @ w.raw)).all()
    calls.clear()
    for a, c in (
        (x, w[:, :5]),
        (x, Bounded(w.raw, 0.5, FLOAT32)),
        (Bounded.exact(np.ones((3, 4))), Bounded.exact(w.value)),
    ):
        assert (a @ c).ndim == 2 and not calls
    assert (w @ Bounded.exact(np.ones((2, 7, 3), F32))).shape == (2, 4, 3) and not calls
    assert (Bounded.exact(np.ones((1, 25), F32)) @ Bounded.exact(np.ones((25, 1), F32))).value.tolist() == [[25]]


# --- the model -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("of", [d for d in DTYPES.values() if d.is_float and d.bits >= 16], ids=str)
def test_the_error_model(of: Any) -> None:
    """Two roundings; four ulps, or two of 16 bits; n roundings in any order; overflow from halfway on."""
    u, ulps = of.unit_roundoff, 2 if of.bits == 16 else 4
    assert 2 * u + u * u <= unit(of) <= 2 * u + 2.001 * u * u + 8.001 * 2.0**-53
    assert 2 * ulps * u + 2 * 2.0**-53 <= elementary("exp", of) <= 2 * ulps * (u + 2.0**-53) + 8.001 * 2.0**-53
    assert 10 * u <= gamma(10, of) <= 10 * u / (1 - 10 * u) + 10 * 2.0**-53 / (1 - 1e-12) + 8.001 * 2.0**-53
    safe, sure = overflow_at(of)
    assert safe <= float(of.max) * (1 + u / 2) and safe >= float(of.max) * (1 + u / 2 - 9 * 2.0**-53) or of is FLOAT64
    assert (sure == INF) == (of is FLOAT64) and sure >= safe and (sure == INF or sure <= float(of.max) * (1 + 4 * u))
    assert safe <= float(of.max) * (1 + u / 2) and (of is not FLOAT64 or safe < float(of.max))


def test_integers_have_no_rounding() -> None:
    assert gamma(10, INT64) < 20 * 2.0**-53 and overflow_at(DTYPES["int8"]) == (127.0, 128.0)


# --- formulas ------------------------------------------------------------------------------------------------------


def test_widening_counts_roundings_and_terms() -> None:
    y, term = b([1.0, INF]), b([2.0, 2.0], 0.5)
    for given, count in (({}, 1), ({"roundings": 5}, 5)):
        found = widen(y, lambda: (term,), **given)
        assert found.radius == pytest.approx([gamma(count + 8, FLOAT32) * 2.5, 0])
    assert widen(y, lambda: (), absolute=0.25).radius.tolist() == [0.25, 0]
    assert widen(b([3.0], 4.0, INT64), lambda: (np.array([9]),)).radius.tolist() == [4], "whole numbers are not rounded"
    assert cut_at_zero(np.array([-1.0])).tolist() == [-1] and cut_at_zero(b([0.1], 0.5)).interval()[0][0] == 0


def test_windows_of_what_is_exact_stay_so_and_cannot_be_written() -> None:
    assert windows(Bounded.exact(np.arange(4.0)), (2,), (1,), (1,)).is_exact
    assert windows(b([1.0, 2.0, 3.0], [0, 0.5, 0]), (2,), (1,), (1,)).radius.tolist() == [[0, 0.5], [0.5, 0]]
    assert not windows(np.arange(4.0), (2,), (1,), (1,)).flags.writeable


STEPS: dict[str, Callable[[Any], Any]] = {"erf": erf, "tanh": np.tanh}


@pytest.mark.parametrize("name", STEPS)
def test_the_ends_of_a_step_are_exact_at_infinity_only(name: str) -> None:
    y = STEPS[name](Bounded.exact(np.array([INF, -INF, 20.0], F32)))
    assert y.value.tolist() == [1, -1, 1] and y.radius[:2].tolist() == [0, 0] and y.radius[2] > 0


# --- one element at a time -------------------------------------------------------------------------------------------

INT8 = DTYPES["int8"]
SPANS = [(p, q) for p in (-128, -100, -1, 0, 3, 100, 127) for q in (-128, -100, -1, 0, 3, 100, 127) if p <= q]


@pytest.mark.parametrize("op", [np.add, np.subtract, np.multiply, "sum"])
def test_integers_are_known_where_they_cannot_wrap(op: Any) -> None:
    for (p, q), (r, s) in product(SPANS, SPANS):
        x, y = (b([(low + high) / 2], (high - low) / 2, INT8) for low, high in ((p, q), (r, s)))
        found = np.sum(np.concatenate([x, y])) if op == "sum" else op(x, y)
        exact = operator.add if op == "sum" else {np.add: operator.add, np.subtract: operator.sub}.get(op, operator.mul)
        ends = [exact(m, n) for m in (p, q) for n in (r, s)]
        low, high = (float(np.ravel(e)[0]) for e in found.interval())
        fits = -128 <= min(ends) and max(ends) <= 127
        assert low <= min(ends) and max(ends) <= high, (p, q, r, s)
        assert np.isinf(found.radius).all() or fits
        assert op is np.multiply or (
            np.isinf(found.radius).all() != fits and (not fits or high - low == max(ends) - min(ends))
        )


POWERS: list[tuple[tuple[float, float], tuple[float, float], tuple[float, float] | None]] = [
    ((-2, -1), (2, 2), (1, 4)), ((-1, 1), (2, 2), (0, 1)), ((-2, -1), (-1, -1), (-1, -0.5)),
        ((0, 1), (0.5, 0.5), (0, 1)),
    ((1, 2), (-1, 1), (0.5, 2)), ((0.5, 2), (2, 3), (0.125, 8)), ((0, 2), (1, 2), (0, 4)), ((-2, -2), (3, 3), (-8, -8)),
    ((-1, 1), (-1, -1), None), ((-1, 1), (0.5, 0.5), None), ((0, 1), (-1, -1), None), ((-2, -1), (1.5, 2.5), None),
        ((-1, 1), (1, 2), None),
    ((-2, -1), (0.5, 0.5), (NAN, NAN)), ((-3, 1), (2, 2), (0, 9)),
]  # fmt: skip


@pytest.mark.parametrize(("base", "exponent", "wanted"), POWERS)
def test_powers_have_a_value_or_are_open(base: Any, exponent: Any, wanted: Any) -> None:
    """A base that may be negative has a power where the exponent is one whole number; 0 where it is positive."""
    x, y = (b([(p + q) / 2], (q - p) / 2) for p, q in (base, exponent))
    found = x**y
    assert np.isfinite(found.radius[0]) == (wanted is not None)
    if wanted is not None and np.isnan(wanted[0]):
        assert np.isnan(found.value[0]) and found.radius[0] == 0
    elif wanted is not None:
        low, high = (e[0] for e in found.interval())
        reach = max(found.value[0] - wanted[0], wanted[1] - found.value[0])
        assert (
            low <= wanted[0] and wanted[1] <= high and found.radius[0] <= reach + 1e-5 * (abs(found.value[0]) + reach)
        )


@pytest.mark.parametrize(("low", "high"), [(0.25, 0.5), (-0.5, -0.25), (-0.5, 0.5), (-0.5, 0.1)])
def test_up_to_the_largest_number_an_interval_is_as_wide_as_it_is(low: float, high: float) -> None:
    y = b([(low + high) / 2 * TOP], (high - low) / 2 * TOP) * F32(2)
    (least,), (most,) = y.interval()
    assert least <= 2 * low * TOP and 2 * high * TOP <= most
    assert y.radius[0] <= (high - low) * TOP * (1 + 1e-6)


def test_a_square_that_may_overflow_may_be_zero_too() -> None:
    """Both ends of the base give infinity, and 0 is between them; where it is not, infinity is certain."""
    two = b([2.0], 0.0)
    assert np.isinf((b([0.0], 1e30) ** two).radius).all()
    far = b([2e30], 1e30) ** two
    assert np.isposinf(far.value).all() and (far.radius == 0).all()


def test_what_underflows_is_open_down_to_zero_and_a_zero_is_not() -> None:
    tiny, zero = b([1e-30]), b([0.0])
    below = (tiny * tiny).radius[0]
    assert float(FLOAT32.smallest_subnormal) <= below <= 3 * float(FLOAT32.smallest_subnormal)
    assert not (zero * tiny).radius.any() and not (zero / b([3.0])).radius.any()
    assert (b([1e-40]) + b([1e-40])).radius[0] < 1e-46 and (b([3e-40]) - b([1e-40])).radius[0] < 1e-46
    small, none = b([1e-200], of=FLOAT64), b([0.0], of=FLOAT64)
    assert (small * small).radius[0] > 0 and not (small * none).radius.any() and not (none * small).radius.any()
    assert not (none / b([3.0], of=FLOAT64)).radius.any() and (small / b([1e200], of=FLOAT64)).radius[0] > 0


def test_a_sum_is_not_below_its_larger_term() -> None:
    for x, y, least in ((0.5, 0.5, 0.0), (0.5, 1e-8, 1e-8), (1e-8, 0.5, 1e-8)):
        first, second = (b([v], 0.0 if v == 1e-8 else v) for v in (x, y))
        assert (first + second).interval()[0][0] >= least * 0.99
    mixed = b([-0.1], 0.2) + b([0.1], 0.1)
    assert mixed.interval()[0][0] <= -0.3
    several = b([0.5, 5.0], 0.5) + b([0.5, 5.0], 0.5)
    assert several.interval()[0][0] == 0 and 8.99 < several.interval()[0][1] < 9


def test_quotients_and_products_of_what_is_not_negative() -> None:
    x, y = b([0.5, 5.0], 0.5), b([2.0, 2.0], 0.5)
    assert (x * y).interval()[0][0] == 0 and (x / y).interval()[0][0] == 0 and (x * y).interval()[0][1] > 6.2
    assert (b([0.5], 0.6) * y[:1]).interval()[0][0] < -0.1


def test_the_greater_of_two() -> None:
    cases = [
        ((1, 0.5), (3, 0.5), 0.5),
        ((1, 1), (2, 0.0), 0.0),
        ((1, 2), (2, 0.0), 1.0),
        ((1, INF), (2, 0), INF),
        ((2, 0), (1, INF), INF),
        ((1, 3), (2, 1), 2),
    ]
    for (v, r), (w, s), radius in cases:
        assert np.maximum(b([v], r), b([w], s)).radius[0] == pytest.approx(radius, abs=1e-12), (v, r, w, s)
        assert np.minimum(b([-v], r), b([-w], s)).radius[0] == pytest.approx(radius, abs=1e-12)
    zeros = np.maximum(Bounded.exact(np.array([-0.0, -3.0, 0.0], F32)), Bounded.exact(np.array([0.0, -2.0, -0.0], F32)))
    assert np.signbit(zeros.value).tolist() == [False, True, False] and zeros.value.tolist() == [0, -2, 0]
    x = b([5.0], 0.5)
    assert np.clip(x, None, F32(3)).value == 3 and np.clip(x, F32(7), None).value == 7 and np.clip(x, None, None) is x


def test_steps_of_large_numbers_move_by_less_than_one() -> None:
    x = b([2.0**52, 2.5, NAN, INF], [8.0, 0.0, 0.0, 0.0], FLOAT64)
    for f in (np.floor, np.ceil, np.rint):
        assert f(x).radius.tolist() == [9, 0, 0, 0]


def test_a_hyperbolic_cosine_is_at_least_one() -> None:
    low, high = np.cosh(b([0.0], 0.5)).interval()
    assert 0.99999 < low[0] <= 1 and 1.127 < high[0] < 1.128

"""Intervals are tight: plain faults are outside. And what they do where there is no finite interval, or a choice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from assay.semantics.bounds import (
    Bounded,
    contains,
    cut_at_zero,
    gamma,
    rounded_literal,
    whole_division,
    widen,
    windows,
)
from assay.semantics.dtypes import BOOL, DTYPES, FLOAT32, FLOAT64, INT64, dtype
from assay.semantics.errors import Crash, Trap, Unpredictable
from tests.semantics.bounding.intervals import BINARY, F32, FLOATS, INF, NAN, UNARY, around


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """As the interpreter runs: floating-point exceptions have their IEEE results and no warning."""
    with np.errstate(all="ignore"):
        yield


# --- planted faults are outside ----------------------------------------------------------------------------------


@pytest.mark.parametrize("inner", [3, 31, 200])
def test_faults_of_a_matrix_product_are_seen(inner: int) -> None:
    rng = np.random.default_rng(9)
    a, b = rng.uniform(0.5, 1.5, (5, inner)).astype(F32), rng.uniform(0.5, 1.5, (inner, 7)).astype(F32)
    bounds = Bounded.exact(a) @ b
    right = a @ b
    assert contains(bounds, right).all()
    faults = {
        "the last product dropped": a[:, :-1] @ b[:-1],
        "one product doubled": right + a[:, :1] * b[:1],
        "scaled by 1 + 1e-3": right * F32(1 + 1e-3),
        "rows in reverse": right[::-1],
        "NaN": np.full_like(right, NAN),
        "accumulated in bfloat16": (
            np.cumsum(a[0] * b[:, 0], dtype=ml_dtypes.bfloat16)[-1:].astype(F32) * np.ones_like(right)
        ),
        "zero": np.zeros_like(right),
    }
    for fault, wrong in faults.items():
        assert not contains(bounds, wrong).all(), fault


@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_faults_of_elementwise_functions_are_seen(name: str) -> None:
    rng = np.random.default_rng(10)
    f: Callable[..., Any] = UNARY[name][0] if name in UNARY else BINARY[name][0]
    domains = [UNARY[name][1]] if name in UNARY else list(BINARY[name][1:])
    xs = [rng.uniform(*d, 40).astype(F32) for d in domains]
    bounds, right = f(*map(Bounded.exact, xs)), np.asarray(f(*xs))
    assert contains(bounds, right).all()
    for wrong in (
        right * F32(1 + 1e-4),
        right + F32(0.001),
        -right,
        np.full_like(right, NAN),
        np.full_like(right, INF),
    ):
        moved = wrong != right
        assert moved.any() and not contains(bounds, wrong)[moved].any()


def test_shape_and_dtype_are_part_of_the_verdict() -> None:
    x = Bounded.exact(np.zeros((2, 3), F32))
    with pytest.raises(Crash):
        contains(x, np.zeros((3, 2), F32))
    with pytest.raises(Crash):
        contains(x, np.zeros((2, 3)))


# --- tightness ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide"])
def test_one_operation_costs_two_ulps_at_most(name: str) -> None:
    rng = np.random.default_rng(11)
    a, b = rng.uniform(1, 9, (2, 500)).astype(F32)
    bounds = BINARY[name][0](Bounded.exact(a), Bounded.exact(b))
    assert (bounds.radius <= 2 * np.spacing(np.abs(bounds.value).astype(F32))).all()


@pytest.mark.parametrize("count", [1, 2, 10, 1000])
def test_a_sum_of_ones(count: int) -> None:
    bounds = np.sum(Bounded.exact(np.ones(count, F32)))
    assert bounds.radius <= 4 * count * 2.0**-24 * count
    assert bounds.radius == 0 or count > 1


def test_what_is_exact_stays_exact() -> None:
    x = np.array([[-1.5, 0.0, 3.25], [7.0, -2.0, 0.5]], F32)
    b = Bounded.exact(x)
    for y in (-b, abs(b), np.maximum(b, F32(0)), np.minimum(b, b), np.floor(b), b.reshape(3, 2), b.T, b[1:, ::-1]):
        assert y.is_exact and not y.radius.any()
    assert np.max(b, axis=1).is_exact and b.min().is_exact and b.sum(axis=()).is_exact
    assert np.where(x > 0, b, F32(0)).is_exact
    assert b.astype(np.float64).is_exact and b.astype(np.float64).of is FLOAT64


def test_exact_operands_take_no_memory_for_their_radius() -> None:
    x = np.zeros((1000, 1000), F32)
    b = Bounded.exact(x)
    assert b.raw is x and b.radius.strides == (0, 0)
    assert b.transpose().reshape(100, -1, 10).radius.strides == (0, 0, 0)


def test_zero_times_anything_finite_is_zero() -> None:
    zero = np.zeros(3, F32)
    x = Bounded(np.ones(3), 0.5, FLOAT32)
    for y in (zero * x, x @ zero, zero / x):
        assert not y.value.any() and not y.radius.any()


def test_a_relu_cuts_off_what_is_negative() -> None:
    y = np.maximum(Bounded(np.array([-5.0, -0.05, 5.0]), np.full(3, 0.1), FLOAT32), F32(0))
    low, high = y.interval()
    assert y.radius[0] == 0 and y.value[0] == 0
    assert high[1] == pytest.approx(0.05) and low[2] == pytest.approx(4.9) and high[2] == pytest.approx(5.1)


def test_minus_zero_is_below_zero() -> None:
    x, y = Bounded.exact(np.array([-0.0, 0.0, -0.0], F32)), np.array([0.0, -0.0, -0.0], F32)
    assert np.signbit(np.maximum(x, y).value).tolist() == [False, False, True]
    assert np.signbit(np.minimum(x, y).value).tolist() == [True, True, True]


def test_a_square_is_not_negative() -> None:
    x = Bounded(np.array([0.5, -0.1]), np.array([1.0, 0.3]), FLOAT32)
    for y in (x * x, np.square(x), abs(x), np.mean(x * x), cut_at_zero(x)):
        assert (y.interval()[0] >= 0).all()
    root = np.sqrt((x * x).sum() + F32(1e-5))
    assert np.isfinite(root.radius) and (root.interval()[0] >= 0.9 * 1e-5**0.5).all()


# --- what is no finite interval ------------------------------------------------------------------------------------


def test_overflow() -> None:
    big = np.array([3e38, -3e38, 3.4028235e38], F32)
    sure = Bounded.exact(big) * F32(2)
    assert contains(sure, np.array([INF, -INF, INF], F32)).all() and not contains(sure, big).any()
    maybe = Bounded(np.array([3.4e38]), np.array([1e36]), FLOAT32) * F32(1.001)
    assert maybe.vacuous.all()
    total = np.sum(Bounded.exact(np.array([3e38, 3e38, -3e38], F32)))
    assert np.isinf(total.radius)  # the order decides


def test_a_mask_of_the_lowest_number_does_not_overflow() -> None:
    scores = np.array([[1.5, -2.0, 0.25]], F32)
    mask = np.array([[0.0, np.finfo(F32).min, np.finfo(F32).min]], F32)
    x = Bounded.exact(scores) + mask
    assert np.isfinite(x.radius).all()
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    assert contains(e / e.sum(axis=-1, keepdims=True), np.array([[1, 0, 0]], F32)).all()
    assert np.isfinite(e.radius).all()


def test_infinite_masks_match_like_for_like() -> None:
    x = Bounded.exact(np.array([1.0, -INF, 2.0], F32)) + F32(1)
    e = np.exp(x - np.max(x))
    assert contains(e, np.array([np.exp(F32(-1)), 0, 1], F32)).all()
    assert np.isfinite(e.radius).all()
    product = Bounded.exact(np.array([[1.0, INF], [NAN, 2.0]], F32)) @ np.array([1.0, 2.0], F32)
    assert contains(product, np.array([INF, NAN], F32)).all() and not contains(product, np.array([1, 5], F32)).any()


def test_what_holds_zero_may_not_be_divided_by() -> None:
    one = Bounded.exact(np.ones(3, F32))
    y = one / Bounded(np.array([0.1, 0.3, 1.0]), np.array([0.2, 0.3, 0.5]), FLOAT32)
    assert y.vacuous.tolist() == [True, True, False]
    assert contains(one[0] / F32(0), np.asarray(F32(INF)))
    assert not contains(one[0] / F32(-0.0), np.asarray(F32(INF)))
    cancelled = Bounded.exact(np.array([1.0, -1.0], F32)).sum() * F32(0)  # 0, of either sign by the order
    assert cancelled.value == 0 and (one / cancelled).vacuous.all() and (cancelled ** F32(-1)).vacuous


@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_nothing_follows_from_nothing(name: str) -> None:
    """A vacuous operand gives a vacuous result, but for steps and signs, whose range is known all the same."""
    f: Callable[..., Any] = UNARY[name][0] if name in UNARY else BINARY[name][0]
    nothing = Bounded(np.array([1.0, 0.0]), INF, FLOAT32)
    other = [] if name in UNARY else [np.array([2.0, 0.0], F32)]
    result = f(nothing, *other)
    assert contains(result, np.array([NAN, 123.0], F32))[0 if name == "power" else slice(None)].all()


@pytest.mark.parametrize("reduce", [np.sum, np.mean, np.prod, np.max, np.min])
def test_reductions_of_nothing(reduce: Callable[..., Any]) -> None:
    x = Bounded(np.array([[1.0, INF], [1.0, 2.0]]), np.array([[INF, 0.0], [0.0, 0.1]]), FLOAT32)
    assert np.isinf(reduce(x, axis=1).radius).tolist() == [True, False]


def test_a_type_without_infinity_may_give_anything_on_overflow() -> None:
    x = np.array([400, 1], ml_dtypes.float8_e4m3fn)
    assert np.isinf((Bounded.exact(x) + x).radius).tolist() == [True, False]
    scale = Bounded.exact(np.array([2.0], ml_dtypes.float8_e8m0fnu))
    assert np.isinf((scale * scale).radius).all()  # a type without zero and sign is no number to compute with


def test_vacuous_is_what_checks_nothing() -> None:
    x = Bounded(np.array([1.0, 100.0, 1e-9, 0.0]), np.array([INF, 99.0, 1e-6, 101.0]), FLOAT32)
    assert x.vacuous.tolist() == [True, False, False, True]
    assert not Bounded.exact(np.zeros(3, F32)).vacuous.any()


# --- decisions ---------------------------------------------------------------------------------------------------


def test_comparisons_are_three_valued() -> None:
    x = Bounded(np.array([1.0, 2.0, 3.0, NAN]), np.array([0.5, 0.5, 0.5, 0.0]), FLOAT32)
    less = x < F32(2)
    assert isinstance(less, Bounded) and less.of is BOOL
    assert less.interval()[0].tolist() == [1, 0, 0, 0] and less.interval()[1].tolist() == [1, 1, 0, 0]
    assert (F32(2) > x).interval()[1].tolist() == [1, 1, 0, 0]
    assert isinstance(x[:1] < F32(2), np.ndarray)  # decided
    assert bool((x <= F32(1.6))[0]) and (x >= F32(4)).tolist() == [False] * 4
    assert (x == F32(9)).tolist() == [False] * 4 and (x != F32(9)).tolist() == [True] * 4
    assert np.isnan(x).tolist() == [False, False, False, True]
    assert (~less).interval()[0].tolist() == [0, 0, 1, 1]
    assert (less & False).tolist() == [False] * 4 and (less | True).tolist() == [True] * 4
    assert (less ^ np.array([True] * 4)).interval()[0].tolist() == [0, 0, 1, 1]
    assert np.any(less) and not np.all(less)
    nothing = Bounded(np.array([1.0]), INF, FLOAT32)  # may be NaN, which is not below inf
    for undecided in (nothing <= F32(INF), nothing != F32(3), nothing == nothing, np.isnan(nothing)):
        assert [float(e.item()) for e in undecided.interval()] == [0, 1]


def test_an_undecided_branch_is_said() -> None:
    x = Bounded(np.array(1.0), np.array(0.5), FLOAT32)
    assert bool(x > F32(0))
    with pytest.raises(Unpredictable, match=r"bounds\.C1"):
        bool(x > F32(1))


def test_where_holds_both_branches_if_undecided() -> None:
    x = Bounded(np.array([-1.0, 0.0, 1.0]), np.full(3, 0.5), FLOAT32)
    y = np.where(x > F32(0), F32(10) + x, F32(-10) + x)
    low, high = y.interval()
    assert low == pytest.approx([-11.5, -10.5, 10.5], rel=1e-5) and high == pytest.approx([-10.5, 10.5, 11.5], rel=1e-5)
    undecided = np.where(x > F32(0), np.array([INF] * 3, F32), np.array([1, 1, INF], F32))
    assert np.isinf(undecided.radius).tolist() == [False, True, False]


def test_steps_of_an_interval() -> None:
    x = Bounded(np.array([1.9, 2.1, -0.5, 1e20]), np.array([0.2, 0.05, 0.2, 1e14]), FLOAT32)
    for f in (np.floor, np.ceil, np.rint, np.trunc):
        low, high = f(x).interval()
        for point in (x.value - x.radius, x.value, x.value + x.radius):
            assert ((low <= f(point)) & (f(point) <= high)).all()
    assert np.floor(x).radius[1] == 0


def test_conversion() -> None:
    x = Bounded(np.array([1.9, 2.5, -0.3]), np.array([0.2, 0.05, 0.2]), FLOAT32)
    whole = x.astype(np.int64)
    assert whole.of is INT64 and whole.interval()[0].tolist() == [1, 2, 0] and whole.interval()[1].tolist() == [2, 2, 0]
    assert x[1:].astype(np.int8).dtype == np.int8 and isinstance(x[1:].astype(np.int8), np.ndarray)
    assert (whole + 1).interval()[1].tolist() == [3, 3, 1]
    half = x.astype(np.float16)
    assert contains(half, x.value.astype(np.float16)).all() and half.of is dtype("float16")
    assert (x.astype(bool) == np.array([True] * 3)).all()
    with pytest.raises(Trap, match="out of the range"):
        Bounded.exact(np.array([300.0], F32)).astype(np.int8)
    with pytest.raises(Trap):
        Bounded.exact(np.array([NAN], F32)).astype(np.int8)
    assert np.isinf(Bounded(np.array([127.5]), np.array([1.0]), FLOAT32).astype(np.int8).radius).all()


def test_integers_wrap_and_divide() -> None:
    x = Bounded(np.array([100.5, 3.5]), np.array([0.7, 0.2]), FLOAT32).astype(np.int8)
    assert np.isinf((x * np.int8(2)).radius).tolist() == [True, False]
    exact = Bounded(np.array([1.0, 2.0]), np.array([1.0, 0.0]), INT64)
    assert np.sum(exact).interval() == (2, 4) and (exact @ exact).interval() == (2, 8)
    assert np.prod(exact).interval() == (0, 4)
    y = whole_division("truncdiv", x, np.array([7, -2], np.int8))
    assert np.isinf(y.radius).tolist() == [True, False] and y.value[1] == -1
    with pytest.raises(Trap):
        whole_division("floordiv", x[1:], np.array([0], np.int8))


# --- placing elements ----------------------------------------------------------------------------------------------

MOVES: dict[str, Callable[[Any], Any]] = {
    "reshape": lambda x: np.reshape(x, (4, 6)),
    "transpose": lambda x: np.transpose(x, (2, 0, 1)),
    "moveaxis": lambda x: np.moveaxis(x, 0, -1),
    "expand and squeeze": lambda x: np.squeeze(np.expand_dims(x, (0, 2)), 0),
    "concatenate": lambda x: np.concatenate([x, x[:, :1]], axis=1),
    "stack": lambda x: np.stack([x, x], axis=1),
    "take": lambda x: np.take(x, np.array([[2, 0], [1, 1]]), axis=1),
    "pad": lambda x: np.pad(x, ((0, 1), (2, 0), (1, 1)), constant_values=-INF),
    "reflect": lambda x: np.pad(x, ((0, 1), (2, 0), (1, 1)), mode="reflect"),
    "broadcast": lambda x: np.broadcast_to(x, (5, 2, 3, 4)),
    "flip": lambda x: np.flip(x, 1),
    "split": lambda x: np.split(x, [1, 2], axis=1)[1],
    "index": lambda x: x[:, ::-2, 1:][..., np.newaxis],
    "windows": lambda x: windows(x, (2, 3), (1, 1), (1, 1)),
    "sliding windows": lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, axis=1),
    "ravel": lambda x: x.ravel(),
    "clip": lambda x: np.clip(x, F32(-1), F32(1)),
    "max": lambda x: np.max(x, axis=1, initial=-INF),
}


@pytest.mark.parametrize("name", MOVES)
def test_movement(name: str) -> None:
    rng = np.random.default_rng(12)
    x, points = around(rng, rng.standard_normal((2, 3, 4)).astype(F32), 0.1)
    bounds = MOVES[name](x)
    for p in points:
        got = MOVES[name](p)
        assert bounds.shape == got.shape and contains(bounds, got).all()
    assert not contains(bounds, MOVES[name](points[0] + 10)).all()
    exact = MOVES[name](Bounded.exact(points[0]))
    assert not exact.radius.any() and (exact.value == MOVES[name](points[0])).all()


def test_windows_by_index() -> None:
    x = np.arange(2 * 9 * 8).reshape(2, 9, 8).astype(F32)
    for of in ("float32", "bfloat16", "float8_e5m2", "int4"):
        view = windows(x.astype(DTYPES[of].numpy), (3, 2), (2, 3), (2, 1))
        assert view.shape == (2, 3, 3, 3, 2) and view.dtype == DTYPES[of].numpy
        for i, j, k, m in np.ndindex(3, 3, 3, 2):
            assert (view[:, i, j, k, m] == x.astype(DTYPES[of].numpy)[:, 2 * i + 2 * k, 3 * j + m]).all()
    assert windows(x, (12,), (1,), (1,)).shape == (2, 9, 0, 12)


def test_likes_and_attributes() -> None:
    x = Bounded.exact(np.ones((2, 3), ml_dtypes.bfloat16))
    assert (np.zeros_like(x).value == 0).all() and (np.full_like(x, 2.5).value == 2.5).all()
    assert np.ones_like(x, dtype=np.int32).dtype == np.int32
    assert (np.shape(x), np.ndim(x), np.size(x), x.size, len(x)) == ((2, 3), 2, 6, 6, 2)
    assert x.dtype == ml_dtypes.bfloat16 and x.dtype.type(0).dtype == x.dtype
    assert "Bounded" in repr(x) and "bfloat16" in repr(x)


def test_what_has_no_rule_is_a_fault_of_ours() -> None:
    x = Bounded.exact(np.ones(3, F32))
    with pytest.raises(Crash, match="cbrt"):
        np.cbrt(x)
    with pytest.raises(Crash, match="sort"):
        np.sort(x)
    with pytest.raises(Crash, match="no array"):
        np.asarray(x)
    with pytest.raises(Crash):
        x + np.ones(3)  # float64 to float32
    with pytest.raises(Crash):
        np.add(x, x, dtype=np.float64)


# --- formulas ----------------------------------------------------------------------------------------------------


def test_a_literal_holds_every_rounding_of_it() -> None:
    x = Bounded.exact(np.ones(1, F32))
    assert rounded_literal(x.raw, 0.1) == F32(0.1) and rounded_literal(x, 0.5).is_exact
    near = [np.nextafter(F32(0.1), F32(k)) for k in (-1, 1)]
    assert contains(rounded_literal(x, 0.1), np.asarray(F32(0.1))) and all(
        contains(rounded_literal(x, 0.1), np.asarray(n)) for n in near
    )
    assert not contains(rounded_literal(x, 0.1), np.asarray(F32(0.10001)))


def test_widen_admits_another_formula() -> None:
    x = np.array([1000.25, 1001.5, 999.75], F32)
    mean, scale, shift = F32(1000.1), F32(1.7), F32(0.3)
    other = x * scale + (shift - mean * scale)
    b = Bounded.exact(x)
    y = (b - mean) * scale + shift
    assert not contains(y, other).all()
    wider = widen(y, lambda: (b * scale, Bounded.exact(mean) * scale))
    assert contains(wider, other).all() and (wider.radius < 0.01).all()
    assert widen(x, lambda: ()) is x


def test_gamma_grows_and_never_turns_negative() -> None:
    for of in FLOATS:
        values = [gamma(n, DTYPES[of]) for n in (1, 2, 100, 10**4, 10**9)]
        assert values == sorted(values) and values[0] >= DTYPES[of].unit_roundoff

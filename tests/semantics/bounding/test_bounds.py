"""Intervals are sound: whatever a correct implementation may compute is inside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from assay.semantics.bounding import sums
from assay.semantics.bounds import Bounded, contains, erf
from assay.semantics.dtypes import DTYPES, FLOAT32, FLOAT64
from tests.semantics.bounding.intervals import BINARY, F32, FLOATS, INF, NAN, UNARY, Array, around, orders


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """As the interpreter runs: floating-point exceptions have their IEEE results and no warning."""
    with np.errstate(all="ignore"):
        yield


def wide(f: Callable[..., Any]) -> Callable[..., Any]:
    """The same function computed in float64 and rounded once: also what a correct implementation may do."""
    return lambda *xs: np.asarray(f(*(x.astype(np.float64) for x in xs))).astype(xs[0].dtype)


def assert_sound(
    f: Callable[..., Any], operands: list[tuple[Bounded, list[Array]]], *others: Callable[..., Any]
) -> Bounded:
    """`f` of points inside the operands, in their dtype and by `others`, is inside `f` of the operands."""
    bounds = f(*(x for x, _ in operands))
    for run in (f, *others):
        for points in zip(*(p for _, p in operands), strict=True):
            got = np.asarray(run(*points))
            inside = contains(bounds, got)
            assert inside.all(), (got[~inside], bounds.value[~inside], bounds.radius[~inside])
    return bounds


# --- soundness, function by function -----------------------------------------------------------------------------


def vectorised(f: Callable[..., Any]) -> Callable[..., Any]:
    return wide(f) if f is not erf else lambda x: erf(x.astype(np.float64)).astype(x.dtype)


@pytest.mark.parametrize("of", FLOATS)
@pytest.mark.parametrize("relative", [0.0, 1e-6, 0.05, 1.5])
@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str, relative: float, of: str) -> None:
    f, (low, high) = UNARY[name]
    rng = np.random.default_rng(1)
    x = around(rng, rng.uniform(low, high, (4, 50)).astype(DTYPES[of].numpy), relative)
    bounds = assert_sound(f, [x], vectorised(f))
    # the logarithm and root of what may be negative are anything, and so is one over what may be zero
    known = np.isfinite(bounds.radius) if relative < 1 else np.ones(1)
    assert known.all()


@pytest.mark.parametrize("of", FLOATS)
@pytest.mark.parametrize("relative", [0.0, 1e-6, 0.05, 1.5])
@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str, relative: float, of: str) -> None:
    f, first, second = BINARY[name]
    rng = np.random.default_rng(2)
    a = around(rng, rng.uniform(*first, (4, 50)).astype(DTYPES[of].numpy), relative)
    b = around(rng, rng.uniform(*second, (50,)).astype(DTYPES[of].numpy), relative)
    bounds = assert_sound(f, [a, b], wide(f))
    assert relative > 1 or np.isfinite(bounds.radius).all()


@pytest.mark.parametrize("name", UNARY)
def test_every_float16(name: str) -> None:
    x = np.arange(2**16, dtype=np.uint16).view(np.float16)
    f = UNARY[name][0]
    bounds, got = f(Bounded.exact(x)), np.asarray(f(x))
    assert contains(bounds, got).all()
    assert not (np.isinf(bounds.radius) & (np.abs(bounds.value) < 65000)).any()


@pytest.mark.parametrize("of", ["float8_e5m2", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e8m0fnu"])
@pytest.mark.parametrize("name", BINARY)
def test_every_pair_of_float8(name: str, of: str) -> None:
    x = np.arange(256, dtype=np.uint8).view(DTYPES[of].numpy)
    f = BINARY[name][0]
    bounds, got = f(Bounded.exact(x[:, None]), Bounded.exact(x)), np.asarray(f(x[:, None], x))
    assert contains(bounds, got).all()
    top = float(DTYPES[of].max) * 0.8
    # e8m0fnu is a scale, not a number; exp(y * log(x)) in eight bits may be far off
    assert (
        of == "float8_e8m0fnu" or name == "power" or not (np.isinf(bounds.radius) & (np.abs(bounds.value) < top)).any()
    )


bits = st.integers(0, 2**32 - 1).map(lambda b: np.uint32(b).view(F32))
special = st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.0, 0.5, INF, -INF, NAN, 1e-45, -1e-45, 1.2e-38, 3.4028235e38, 89.0])
float32s = st.one_of(bits, special.map(F32), st.floats(-100, 100, width=32).map(F32))


@given(st.lists(float32s, min_size=1, max_size=8), st.lists(float32s, min_size=1, max_size=8))
@settings(max_examples=60)
@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_any_float32(name: str, a: list[Any], b: list[Any]) -> None:
    """Exact operands, any bit pattern: NaN, infinities and overflow like for like, subnormal results within reach."""
    xs = [np.array(a, F32)[:, None], np.array(b, F32)]
    f: Callable[..., Any] = UNARY[name][0] if name in UNARY else BINARY[name][0]
    if name in UNARY:
        xs = xs[:1]
    with np.errstate(all="ignore"):
        got = np.asarray(f(*xs))
        bounds = f(*map(Bounded.exact, xs))
        assert contains(bounds, got).all(), (xs, got, bounds)
        # exact operands have one answer; only near the largest number rounding decides between it and infinity
        assert not (np.isinf(bounds.radius) & (np.abs(bounds.value) < 2.0**127 * 1.9)).any(), (xs, got, bounds)


@given(
    st.tuples(*[st.floats(-50, 50, width=32)] * 4), st.floats(0, 1), st.floats(0, 1), st.sampled_from(sorted(BINARY))
)
@settings(max_examples=200)
def test_any_interval(ends: tuple[float, ...], s: float, t: float, name: str) -> None:
    f = BINARY[name][0]
    (a, b), (c, d) = sorted(ends[:2]), sorted(ends[2:])
    # centre and radius are rounded: a little more radius, so that the ends are inside for certain
    more = 1 + 2.0**-48
    x, y = (Bounded(np.float64((p + q) / 2), np.float64((q - p) / 2 * more), FLOAT32) for p, q in ((a, b), (c, d)))
    p, q = F32(a + s * (b - a)), F32(c + t * (d - c))
    if contains(x, p) and contains(y, q):
        with np.errstate(all="ignore"):
            assert contains(f(x, y), np.asarray(f(p, q))).all()


# --- soundness of reductions and products, in every order ----------------------------------------------------------


def fused(a: Array, b: Array) -> Any:
    """A dot product with a fused multiply-add: one rounding for each step."""
    of = a.dtype.type
    total = of(0)
    for x, y in zip(a.astype(np.longdouble), b.astype(np.longdouble), strict=True):
        total = of(np.longdouble(total) + x * y)
    return total


@pytest.mark.parametrize("of", FLOATS)
@pytest.mark.parametrize("kind", ["normal", "positive", "cancelling", "wide"])
def test_sums_in_any_order(kind: str, of: str) -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((6, 37))
    if kind == "positive":
        x = np.abs(x)
    elif kind == "cancelling":
        x[:, 18:36] = -x[:, :18]
    elif kind == "wide":
        x = x * np.exp2(rng.integers(-6, 6, x.shape))
    a, points = around(rng, x.astype(DTYPES[of].numpy), 0.01)
    total, average = np.sum(a, axis=1), a.mean(axis=-1)
    for p in points:
        for i, row in enumerate(p):
            count = row.dtype.type(len(row))
            for got in orders(rng, row):
                assert contains(total[i], np.asarray(got)).all()
                assert contains(average[i], np.asarray(got / count)).all()


@pytest.mark.parametrize("of", FLOATS)
@pytest.mark.parametrize("relative", [0.0, 0.01])
def test_products_in_any_order(relative: float, of: str) -> None:
    rng = np.random.default_rng(4)
    terms = rng.uniform(0.3, 2, (5, 9)) * rng.choice([-1, 1], (5, 9))
    x, points = around(rng, terms.astype(DTYPES[of].numpy), relative)
    bounds = np.prod(x, axis=1)
    for p in points:
        for i, row in enumerate(p):
            for run in (row, row[::-1], rng.permutation(row)):
                total = row.dtype.type(1)
                for t in run:
                    total = row.dtype.type(total * t)
                assert contains(bounds[i], np.asarray(total)).all()
    assert np.isfinite(bounds.radius).all()


def test_a_product_that_overflows_on_the_way() -> None:
    x = np.array([1e30, 1e30, 1e-30, 1e-30], F32)
    assert np.isinf(np.prod(Bounded.exact(x)).radius)  # 1 in one order, inf in another
    low = np.prod(Bounded.exact(np.array([1e-30, 1e-30, 1e30, 1e30], F32)))
    assert np.isinf(low.radius)
    kept = np.prod(Bounded.exact(np.array([INF, 2, -3], F32)))
    assert contains(kept, np.asarray(F32(-INF))) and not contains(kept, np.asarray(F32(INF)))


@pytest.mark.parametrize("of", FLOATS)
@pytest.mark.parametrize("relative", [0.0, 0.02])
@pytest.mark.parametrize("inner", [1, 2, 31])
def test_matmul_in_any_order(inner: int, relative: float, of: str) -> None:
    rng = np.random.default_rng(5)
    t = DTYPES[of].numpy
    a, a_points = around(rng, rng.standard_normal((3, inner)).astype(t), relative)
    b, b_points = around(rng, rng.standard_normal((inner, 4)).astype(t), relative)
    bounds = a @ b
    for p, q in zip(a_points, b_points, strict=True):
        for i in range(3):
            for j in range(4):
                row, column = p[i], q[:, j]
                for got in (*orders(rng, row * column), fused(row, column)):
                    assert contains(bounds[i, j], np.asarray(got)).all()


@pytest.mark.parametrize(
    ("a", "b"),
    [((3,), (3, 5)), ((2, 3), (3,)), ((4, 2, 3), (3, 5)), ((4, 1, 2, 3), (6, 3, 5)), ((7,), (7,)), ((2, 0), (0, 3))],
)
def test_matmul_shapes(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    rng = np.random.default_rng(6)
    x, y = rng.standard_normal(a).astype(F32), rng.standard_normal(b).astype(F32)
    got = np.asarray(x @ y)
    bounds = Bounded.exact(x) @ y
    assert bounds.shape == got.shape and contains(bounds, got).all()
    assert contains(np.matmul(x, Bounded.exact(y)), got).all()


def test_a_large_matrix_of_weights_is_taken_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    a, _ = around(rng, rng.standard_normal((3, 11)).astype(F32), 0.01)
    w = Bounded.exact(rng.standard_normal((7, 11)).astype(F32)).transpose(1, 0)
    whole = a @ w
    turned = w.transpose() @ a.transpose()
    monkeypatch.setattr(sums, "BLOCK", 20)
    for blocks in (a @ w, (w.transpose() @ a.transpose()).transpose(), turned.transpose()):
        np.testing.assert_allclose(blocks.value, whole.value, rtol=1e-13)
        np.testing.assert_allclose(blocks.radius, whole.radius, rtol=1e-12)


def test_products_below_the_normal_numbers_round_away() -> None:
    a, b = np.full(30, 1e-23, F32), np.full(30, 9e-23, F32)
    bounds = Bounded.exact(a) @ b
    for got in orders(np.random.default_rng(0), a * b):
        assert contains(bounds, np.asarray(got)).all()
    dip = np.array([1e-30, 1e-20, 1e20], F32)  # 0 from the left, 1e-30 from the right
    assert contains(np.prod(Bounded.exact(dip)), np.asarray(dip[0] * dip[1] * dip[2]))


def test_the_ends_of_an_interval_are_rounded_outwards() -> None:
    rng = np.random.default_rng(0)
    x = Bounded(rng.standard_normal(200), np.abs(rng.standard_normal(200)) * 0.1, FLOAT64)
    for low, v, r, high in zip(x.interval()[0], x.value, x.radius, x.interval()[1], strict=True):
        assert Fraction(low) <= Fraction(v) - Fraction(r) and Fraction(v) + Fraction(r) <= Fraction(high)


def test_tensordot() -> None:
    rng = np.random.default_rng(8)
    x, y = rng.standard_normal((2, 3, 4)).astype(F32), rng.standard_normal((4, 3, 5)).astype(F32)
    for axes in (1, ([1, 2], [1, 0])):
        got = np.tensordot(x, y, axes)
        bounds = np.tensordot(Bounded.exact(x), Bounded.exact(y), axes)
        assert bounds.shape == got.shape and contains(bounds, got).all()

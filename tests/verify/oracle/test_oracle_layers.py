"""The layers of verdicts, each on its own: elements and their ulps, whole numbers, errors together, data, disturbed
kernels."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from assay.semantics.bounds import Bounded
from assay.semantics.dtypes import BOOL, FLOAT16, FLOAT32, FLOAT64, INT32, DType
from assay.semantics.ops import operator
from assay.verify.oracle.declarations import flushed, is_subnormal, open_subnormals
from assay.verify.oracle.dot import TERMS, has_independent_roundings, magnitudes, wrong_together
from assay.verify.oracle.findings import Applied
from assay.verify.oracle.layers import open_elements
from assay.verify.oracle.scaled_integers import NOTHING, RULES, ScaledIntegers, exact_result, exactly, scaled_integers
from assay.verify.oracle.verdict import Verdict, Worst, differing, element_number, fits, ulp, worst_exact, worst_outside

F = np.float32
Array = np.ndarray[Any, Any]


# --- elements -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("x", [1.0, 1.5, 2.0, -3.0, 1e-38, 1e-40, 0.0, 3e38])
def test_the_unit_in_the_last_place_is_the_spacing(x: float) -> None:
    assert ulp(x, FLOAT32) == np.spacing(F(abs(x)))
    assert ulp(float("inf"), FLOAT32) == ulp(7.0, INT32) == 1


def test_elements_as_python_numbers() -> None:
    found = [
        element_number(np.float32(2), FLOAT32),
        element_number(np.bool_(True), BOOL),
        element_number(np.int32(2), INT32),
    ]
    assert [type(x) for x in found] == [float, bool, int]


def test_which_elements_differ() -> None:
    want, got = np.array([1, np.nan, 0, -0.0, np.nan, 0], F), np.array([1, np.nan, -0.0, 0, 1, 0], F)
    assert differing(want, got).tolist() == [False, False, False, False, True, False]
    assert differing(want, got, signs=True).tolist() == [False, False, True, True, True, False]
    assert differing(np.array([1, 0]), np.array([1, 2]), signs=True).tolist() == [
        False,
        True,
    ], "integers have no signed zero"


def test_the_element_that_differs_most_and_by_how_much() -> None:
    want = np.array([[1, 2], [4, 8]], F)
    assert worst_exact("y", want, want) is None
    got = want + np.array([[0, 2], [3, 0]], F)
    assert worst_exact("y", want, got) == Worst("y", (1, 0), 7.0, 4.0, 4.0, 3 / np.spacing(F(4)))
    got[0, 1] = np.nan
    assert worst_exact("y", want, got) is not None
    found = worst_exact("y", want, got)
    assert found is not None and found.index == (0, 1) and found.excess == float("inf")
    zero = worst_exact("y", np.zeros(2, F), np.array([0.0, -0.0], F), signs=True)
    assert zero is not None and zero.index == (1,) and zero.excess == float("inf")
    count = worst_exact("y", np.array([5, 5], np.int32), np.array([5, 2], np.int32))
    assert count == Worst("y", (1,), 2, 5, 5, 3.0)


def test_the_element_furthest_outside_of_its_interval() -> None:
    allowed = Bounded(np.array([1.0, 2.0, 4.0]), np.array([0.25, 0.5, 0.5]), FLOAT32)
    assert worst_outside("y", allowed, np.array([1.25, 1.5, 4.5], F)) is None, "the ends are inside"
    over = worst_outside("y", allowed, np.array([1.25, 2.5, 5.0], F))
    assert over is not None and (over.index, over.got, over.excess) == ((2,), 5.0, 0.5 / np.spacing(F(4.5)))
    assert (over.least, over.most) == pytest.approx((3.5, 4.5), rel=1e-15)
    under = worst_outside("y", allowed, np.array([1.0, 1.0, 3.4375], F))
    assert under is not None and (under.index, under.excess) == ((1,), 0.5 / np.spacing(F(1.5)))
    nothing = worst_outside("y", allowed, np.array([np.nan, 9.0, 4.0], F))
    assert nothing is not None and nothing.index == (0,) and nothing.excess == float("inf")


def test_what_a_person_reads() -> None:
    assert str(Worst("y", (2,), 5.0, 3.5, 4.5, 2.0)) == "y element (2,) is 5.0, allowed is [3.5, 4.5], 2 ulp outside"
    assert str(Worst("y", (), 5, 4, 4, float("inf"))) == "y element () is 5, allowed is 4"
    assert (
        str(Verdict("wrong", "graph", "y is odd", culprit="Relu"))
        == "wrong (graph): y is odd; the first operator that is wrong is Relu"
    )
    assert str(Verdict("unpredictable", "", "why")) == "unpredictable: why"


def test_shape_and_dtype_both_have_to_fit() -> None:
    want = np.zeros((2, 3), F)
    assert fits("y", want, want) is None
    for odd in (np.zeros((3, 2), F), np.zeros((2, 3), np.float64)):
        said = fits("y", want, odd)
        assert said is not None and said.startswith("y is Tensor")


def test_what_subnormal_numbers_may_be() -> None:
    x = np.array([1e-40, -1e-40, 0.0, 2e-38, -1.0], F)
    assert flushed(x).tolist() == [0.0, 0.0, 0.0, x[3], -1.0] and np.signbit(flushed(x)).tolist() == [
        False,
        True,
        False,
        False,
        True,
    ]
    assert is_subnormal(x).tolist() == [True, True, False, False, False]
    assert not is_subnormal(np.array([1, 2])).any() and flushed(np.array([1, 2])).tolist() == [1, 2]
    of = float(np.finfo(F).smallest_normal)
    value = np.array([of / 2, -of / 2, 1.0, 0.0, of])
    low, high = open_subnormals(Bounded(value, np.zeros(5), FLOAT32)).interval()
    assert (low <= 0).tolist() == [True, True, False, True, False] and (high >= 0).tolist() == [True] * 5
    assert (low <= value).all() and (value <= high).all() and (high[2], high[3], low[3]) == (1.0, 0.0, 0.0)
    low, high = open_subnormals(Bounded(np.array([of / 2, -of]), np.array([of / 4, 0]), FLOAT32)).interval()
    assert low == pytest.approx([0, -of], abs=of * 2.0**-30) and high == pytest.approx(
        [of * 3 / 4, -of], abs=of * 2.0**-30
    )
    wide = open_subnormals(Bounded(np.array([1.0, np.inf]), np.zeros(2), FLOAT32), 0.5)
    assert wide.radius.tolist() == [0.5, 0.0]


# --- whole numbers --------------------------------------------------------------------------------------------------


def result(name: str, *args: Any, **attrs: Any) -> Any:
    """The operator on arrays, as whole tensors."""
    op = operator(name)
    return exactly(op, op.check_attrs(attrs), args)


X, Y = np.array([[6, -4], [0, 2]], F), np.array([[2, -8], [4, 16]], F)
STEPS: list[tuple[str, tuple[Any, ...], dict[str, Any], float, Any]] = [
    ("add", (X, Y), {}, 2, [[8, 12], [4, 18]]),
    ("add", (X, np.ones((2, 2), F)), {}, 1, [[7, 5], [1, 3]]),
    ("subtract", (X, np.ones((2, 2), F)), {}, 1, [[7, 5], [1, 3]]),
    ("mean", (X[:, :1],), {"axis": (1,)}, 2, [6, 0]),
    ("subtract", (X, Y), {}, 2, [[8, 12], [4, 18]]),
    ("sum", (X,), {"axis": (1,)}, 2, [10, 2]),
    ("cumsum", (X,), {"axis": 1}, 2, [[6, 10], [0, 2]]),
    ("multiply", (X, Y), {}, 4, [[12, 32], [0, 32]]),
    ("matmul", (X, Y), {}, 4, [[12 + 16, 48 + 64], [8, 32]]),
    ("mean", (X,), {"axis": (1,)}, 1, [5, 1]),
    ("mean", (X,), {"axis": None}, 0.5, 3),
    ("divide", (X, Y), {}, 2 / 16, [[3, 0.5], [0, 0.125]]),
    ("maximum", (X, Y), {}, 2, [[6, 8], [4, 16]]),
    ("negative", (X,), {}, 2, [[6, 4], [0, 2]]),
    ("nn.relu", (X,), {}, 2, [[6, 4], [0, 2]]),
    ("reshape", (X,), {"shape": (4,)}, 2, [6, 4, 0, 2]),
    ("minimum", (X, Y), {}, 2, [[6, 8], [0, 2]]),
    ("astype", (X,), {"dtype": "float64"}, 2, [[6, 4], [0, 2]]),
    ("nn.avg_pool1d", (X.reshape(1, 1, 4),), {"pool_size": (2,), "strides": (2,)}, 1, [[[5, 1]]]),
    ("nn.conv1d", (X.reshape(1, 1, 4), Y.reshape(2, 1, 2)), {}, 4, None),
    ("nn.conv1d", (X.reshape(1, 1, 4), Y.reshape(2, 1, 2), np.array([1, 3], F)), {}, 1, None),
]


@pytest.mark.parametrize(
    ("name", "operands", "attrs", "step", "size"), STEPS, ids=[f"{i} {c[0]}" for i, c in enumerate(STEPS)]
)
def test_the_step_and_the_magnitude_of_each_rule(
    name: str, operands: tuple[Any, ...], attrs: dict[str, Any], step: float, size: Any
) -> None:
    """Elements are multiples of the step; the magnitude is what no partial sum exceeds."""
    found = result(name, *operands, **attrs)
    assert isinstance(found, ScaledIntegers) and not found.lost and found.step == step
    op = operator(name)
    wide = op.value(op.check_attrs(attrs), *[a.astype(np.float64) for a in operands])
    assert np.array_equal(found.value, wide) and (np.abs(wide) <= found.magnitude).all()
    assert (np.mod(found.value, step) == 0).all()
    if size is not None:
        assert np.array_equal(np.broadcast_to(found.magnitude, found.shape), size)


BIG, ODD = np.full((2, 3), 2.0**23, F), np.full((2, 3), 3, F)
HALF = np.full((2, 3), 300, np.float16)
LOST: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("sum", (BIG,), {"axis": None}, ""),  # multiples of 2**23
    ("sum", (np.full(1000, 65535, F),), {"axis": None}, "too large to be exact in float32"),
    ("add", (np.full(2, 2.0**23, F), np.ones(2, F)), {}, ""),
    ("add", (np.full(2, 2.0**24, F), np.ones(2, F)), {}, "too large"),
    ("multiply", (HALF, HALF), {}, "a sum may overflow"),
    ("multiply", (np.full(2, 2.0**-75, F), np.full(2, 2.0**-75, F)), {}, "too large"),
    ("multiply", (np.full(2, 2.0**-70, F), np.full(2, 2.0**-50, F)), {}, ""),
    ("mean", (ODD,), {"axis": (1,)}, "a division by 3"),
    ("mean", (ODD,), {"axis": None}, "a division by 6"),
    ("mean", (np.zeros((2, 0), F),), {"axis": (1,)}, "a division by 0"),
    ("nn.avg_pool1d", (np.ones((1, 1, 4), F),), {"pool_size": (2,), "padding": (1, 1)}, "what differs, rounds"),
    ("nn.avg_pool1d", (np.ones((1, 1, 5), F),), {"pool_size": (2,), "ceil_mode": True}, "what differs, rounds"),
    ("nn.avg_pool1d", (np.ones((1, 1, 5), F),), {"pool_size": (3,)}, "a division by 3"),
    ("divide", (X, ODD[:, :2]), {}, "no power of two"),
    ("divide", (X, np.zeros((2, 2), F)), {}, "no power of two"),
    ("astype", (np.array([257.0], F),), {"dtype": "bfloat16"}, "a conversion rounds"),
    ("exp", (X,), {}, "exp rounds"),
    ("add", (np.array([0.1, 0.2], F), np.ones(2, F)), {}, "no small multiples"),
    ("add", (np.array([np.inf, 1], F), np.ones(2, F)), {}, "no small multiples"),
    ("add", (np.where(np.arange(2000) == 1, np.inf, 1).astype(F), np.ones(2000, F)), {}, "the data are not finite"),
]


@pytest.mark.parametrize(("name", "operands", "attrs", "why"), LOST, ids=[f"{i} {c[0]}" for i, c in enumerate(LOST)])
def test_what_may_round_is_lost_and_says_why(
    name: str, operands: tuple[Any, ...], attrs: dict[str, Any], why: str
) -> None:
    with np.errstate(all="ignore"):
        found = result(name, *operands, **attrs)
    assert isinstance(found, ScaledIntegers) and why in found.lost and bool(why) == bool(found.lost)


@pytest.mark.parametrize("reduction", ["none", "add", "max", "min", "mul"])
def test_scattered_products_round(reduction: str) -> None:
    at = np.array([[0], [1]], np.int64)
    found = result("scatter_nd", X, at, Y, reduction=reduction)
    assert isinstance(found, ScaledIntegers) and bool(found.lost) == (reduction == "mul")


def test_every_order_of_sums_gives_what_is_not_lost() -> None:
    """The promise of the layer, with exact arithmetic as the reference."""
    rng = np.random.default_rng(0)
    for scale in (1.0, 2.0**-20, 2.0**30):
        x, w = rng.integers(-900, 900, (3, 30)) * scale, rng.integers(-900, 900, (30, 2)) * 1.0
        found = result("matmul", x.astype(F), w.astype(F))
        want = [[float(sum(Fraction(a) * Fraction(b) for a, b in zip(r, c, strict=True))) for c in w.T] for r in x]
        assert np.array_equal(found.value, np.array(want, F)) != bool(found.lost)
        order = rng.permutation(30)
        total = np.zeros((3, 2), F)
        for k in order:
            total += np.outer(x[:, k], w[k]).astype(F)
        assert found.lost or np.array_equal(total, found.value)


def test_what_is_exact_stays_so_beside_integers_and_constants() -> None:
    some = scaled_integers(X)
    assert (some.step, some.lost, some.ndim, some.shape, some.dtype) == (2, "", 2, (2, 2), np.float32)
    assert scaled_integers(np.zeros(3, F)).step == NOTHING and not scaled_integers(np.zeros(3, F)).lost
    sure = result("greater", X, Y)
    assert sure.dtype == np.bool_ and np.array_equal(sure, X > Y), "a comparison of whole numbers is decided"
    chosen = result("where", sure, X, Y)
    assert np.array_equal(chosen.value, np.where(X > Y, X, Y)) and chosen.step == 2
    integers = np.array([4, 6], np.int32)
    assert np.array_equal(result("add", integers, integers), integers * 2), "integers are no whole tensors"
    assert np.array_equal(result("astype", integers, dtype="float32").value, integers)
    lost = result("astype", result("exp", X), dtype="int32")
    assert isinstance(lost, ScaledIntegers) and lost.lost == "exp rounds" and lost.dtype == np.int32
    assert [w.lost for w in result("topk", result("exp", X), k=1)] == ["exp rounds"] * 2
    values, places = result("topk", X[0], k=1)
    assert values.value.tolist() == [6] and not values.lost and places.tolist() == [0]
    op = operator("add")
    assert exact_result(op, {}, [X, np.array([[0.1]], F)]) is None and exact_result(operator("exp"), {}, [X]) is None
    assert set(RULES) >= {"add", "matmul", "where"}


# --- errors together ------------------------------------------------------------------------------------------------


def together(x: Array, w: Array, got: Array, *bias: Array) -> str:
    """What is said of a product of which every element is inside its interval."""
    op = operator("matmul")
    wide = op.value({}, x.astype(np.float64), w.astype(np.float64))
    found = wrong_together(op, {}, [x, w, *bias], got, "y", Bounded(wide, np.full(wide.shape, 1.0), FLOAT32))
    return found[0] if found else ""


def test_errors_that_are_too_large_or_lean_are_told() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((50, 40)).astype(F), rng.standard_normal((40, 50)).astype(F)
    right = (x.astype(np.float64) @ w.astype(np.float64)).astype(F)
    size = np.abs(x) @ np.abs(w)
    assert together(x, w, right) == ""
    noisy = right + (size * rng.choice([-1, 1], size.shape) * 2.0**-24 * 12).astype(F)
    assert "the mean square of the errors is" in together(x, w, noisy)
    leans = right + (size * 2.0**-24 * 3).astype(F)
    assert "they lean to one side" in together(x, w, leans) and "they lean to one side" in together(
        x, w, right * 2 - leans
    )
    assert together(x, w, leans, np.ones(50, F)) == "", "a bias leans"
    far, wide = np.abs(x) + F(1), np.abs(w)
    sums = (far.astype(np.float64) @ wide.astype(np.float64)).astype(F)
    assert together(far, wide, sums + (sums * F(2.0**-24 * 3)).astype(F)) == "", "so do sums that do not cancel"
    op = operator("matmul")
    allowed = Bounded(right.astype(np.float64), np.ones(right.shape), FLOAT32)
    one = noisy.copy()
    one[7, 9] = right[7, 9] + size[7, 9] * F(2.0**-14)
    found = wrong_together(op, {}, [x, w], one, "y", allowed)
    assert found is not None and found[1].index == (7, 9) and found[1].got == one[7, 9]
    assert (found[1].least, found[1].most) == (allowed.interval()[0][7, 9], allowed.interval()[1][7, 9])
    bad = noisy.copy()
    bad[0, 0] = np.inf
    assert together(x, w, bad) == "", "an infinity is for the other layers"
    assert wrong_together(operator("exp"), {}, [x], noisy, "y", allowed) is None


def test_where_the_errors_together_say_nothing() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(2000), rng.standard_normal(2000)
    assert has_independent_roundings(10, [x], y, FLOAT32)
    assert not has_independent_roundings(10, [x], y, FLOAT64), "there is no wider reference"
    assert not has_independent_roundings(10, [x], y[:999], FLOAT32) and has_independent_roundings(
        10, [x], y[:1000], FLOAT32
    )
    assert (
        not has_independent_roundings(2**10, [x], y, FLOAT16)
        and not has_independent_roundings(2**8, [x], y, FLOAT16)
        and has_independent_roundings(2**7, [x], y, FLOAT16)
    )
    assert not has_independent_roundings(10, [x], np.where(y > 3, np.inf, y), FLOAT32)
    assert not has_independent_roundings(10, [x], np.where(np.arange(2000) % 2, 1.0, y)[:1500], FLOAT32), (
        "half of the results are one number"
    )
    assert not has_independent_roundings(10, [x, np.ones((2, 1000))], y, FLOAT32), "all factors are one number"
    assert not has_independent_roundings(10, [x, np.ones((1, 1))], y, FLOAT32) and has_independent_roundings(
        10, [x, np.zeros(4)], y, FLOAT32
    ), "a bias of zeros"
    assert not has_independent_roundings(10, [x, 1 + 1e-4 * y], y, FLOAT32), "all factors are of one size"
    assert not has_independent_roundings(10, [x, rng.choice([1.0, -2.0, 3.0], 2000)], y, FLOAT32)


@pytest.mark.parametrize(
    ("name", "shapes", "attrs", "count"),
    [
        ("matmul", [(2, 5), (5, 3)], {}, 5),
        ("nn.conv2d", [(1, 3, 8, 8), (4, 3, 2, 2)], {}, 12),
        ("nn.conv2d", [(1, 3, 8, 8), (4, 3, 2, 2), (4,)], {}, 13),
        ("sum", [(2, 3, 5)], {"axis": None}, 30),
        ("sum", [(2, 3, 5)], {"axis": (0, 2)}, 10),
        ("mean", [(2, 3, 5)], {"axis": (2,)}, 6),
        ("nn.avg_pool2d", [(1, 1, 8, 8)], {"pool_size": (2, 3)}, 7),
    ],
)
def test_roundings_of_one_element(name: str, shapes: list[tuple[int, ...]], attrs: dict[str, Any], count: int) -> None:
    arrays = [np.ones(s, F) for s in shapes]
    op = operator(name)
    given = op.check_attrs(attrs)
    assert TERMS[name](given, arrays) == count
    size = magnitudes(op, given, [-a for a in arrays])
    assert size.dtype == np.float64 and np.array_equal(size, op.value(given, *arrays))
    assert (magnitudes(op, given, [np.zeros(s, F) for s in shapes]) > 0).all(), "none is below the least normal number"


# --- what is left open ----------------------------------------------------------------------------------------------


def opened(name: str, radius: list[float], *operands: Any, of: DType = FLOAT32) -> int:
    allowed = Bounded(np.full(len(radius), 8.0), np.array(radius), of)
    return int(np.count_nonzero(open_elements(allowed, Applied(operator(name), {}, operands, name))))


def test_elements_of_which_too_little_is_said() -> None:
    x = Bounded(np.full(3, 8.0), np.zeros(3), FLOAT32)
    assert opened("exp", [0, 1e-3, np.inf], x) == 1, "only what excludes nothing"
    assert opened("floor", [0, 1, np.inf], x) == 2, "a jump that is not decided"
    assert opened("where", [0, 1e-3, 1e-3], np.array([True, False, True]), x, x) == 0
    condition = Bounded(np.zeros(3), np.array([0, 0.5, 0]), BOOL)
    assert opened("where", [0, 1e-3, 1e-3], condition, x, x) == 1
    assert open_elements(Bounded(np.zeros(3), np.array([0, 0.5, 0.5]), INT32), None).tolist() == [False, True, True]


def test_what_suppression_chooses_by_scores_that_round_is_lost() -> None:
    scores = result("exp", np.zeros((1, 1, 2), F))
    found = result("suppress", scores, np.ones((1, 1, 2), bool), np.zeros((1, 2, 2), bool), np.array([2], np.int64))
    assert all(w.lost == "exp rounds" for w in found)
    exact = result(
        "suppress", np.ones((1, 1, 2), F), np.ones((1, 1, 2), bool), np.zeros((1, 2, 2), bool), np.array([2], np.int64)
    )
    assert all(w.lost == "suppress rounds" for w in exact), "of equal scores implementations choose either"

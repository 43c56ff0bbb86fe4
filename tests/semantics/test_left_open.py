"""What a standard leaves open, element by element: what is allowed is admitted, and nothing beside it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnx.defs
import pytest

from assay.semantics.bounds import Bounded, contains
from assay.semantics.left_open import Opening, openings, use
from assay.semantics.left_open.entries import BY_OPERATOR, ENTRIES
from assay.semantics.ops import OPERATORS

NAN, INF = np.nan, np.inf
F, TOP = np.float32, 2**31 - 1


def opened(name: str, *operands: Any, results: Any = None, **attrs: Any) -> dict[int, list[Opening]]:
    """What is left open in each result of an operator on arrays."""
    if results is None:
        op = OPERATORS[name]
        with np.errstate(all="ignore"):
            results = op.value({**{k: a.default for k, a in op.attrs.items()}, **attrs}, *operands)
    found: dict[int, list[Opening]] = {}
    for opening in openings(use(name, attrs, operands, results), BY_OPERATOR):
        found.setdefault(opening.index, []).append(opening)
    return found


def admitted(found: dict[int, list[Opening]], got: Any, others: Any = None, index: int = 0) -> list[Any]:
    """Whether each element of somebody's result is left open there, and what is allowed."""
    flags = [o.admits(got, others) for o in found.get(index, ())]
    return np.any(flags, axis=0).tolist() if flags else np.zeros(np.shape(got), bool).tolist()


def f(*x: float) -> Any:
    return np.array(x, F)


def i(*x: int) -> Any:
    return np.array(x, np.int32)


def test_integers_that_are_too_large() -> None:
    a, b = i(TOP, 5, -TOP), i(2, 6, -3)
    found = opened("add", a, b)
    wrapped, ends, least = a + b, i(TOP, 11, -TOP - 1), i(-TOP - 1, 11, -TOP - 1)
    for right in (wrapped, ends, least):
        assert admitted(found, right) == [True, False, True], "the second is in range: nothing is open there"
    assert admitted(found, i(7, 11, TOP)) == [False, False, False], "7 is none of them, nor is the other end"
    powers = opened("Pow", i(7, 5, -3, -2), i(40, 2, 41, 31), results=i(1, 25, 1, -TOP - 1))
    assert admitted(powers, i(TOP, TOP, -TOP - 1, TOP)) == [True, False, True, False]
    assert not opened("Pow", i(-1, 1, 0), i(TOP, TOP, TOP), results=i(-1, 1, 0))
    x = np.array([[TOP, 5], [TOP, -TOP]], np.int32)
    assert admitted(opened("sum", x, axis=(1,), keepdims=False), i(TOP, TOP)) == [True, False]
    assert admitted(opened("prod", x, axis=(1,), keepdims=False), i(TOP, -TOP - 1)) == [True, True]
    assert admitted(opened("cumsum", x, axis=1, exclusive=False, reverse=False), x * 0 + TOP) == [
        [False, True],
        [False, False],
    ]
    assert admitted(opened("matmul", x, x.T), np.full((2, 2), TOP, np.int32)) == [[True, True], [True, True]]
    squares = opened("ReduceSumSquare", x, results=i(0, 0), axes=[1], keepdims=0)
    assert admitted(squares, i(TOP, -TOP - 1)) == [True, True] and admitted(squares, i(7, 8)) == [False, False]
    assert not opened("ReduceL1", i(3, -4), np.array([0]), results=i(7), keepdims=1)
    assert admitted(opened("abs", i(-TOP - 1, -TOP)), i(TOP, TOP)) == [True, False]
    assert not opened("negative", np.array([3], np.uint8)), "which wraps, by TVM and C"
    assert not opened("add", f(3e38), f(3e38)), "floats have infinities"
    wide = np.array([2**62, 2**62, -(2**62)], np.int64)
    assert not opened("sum", wide, axis=None, keepdims=False), "the whole sum is in range"
    assert admitted(opened("multiply", wide, wide), np.full(3, 2**63 - 1, np.int64)) == [True] * 3


def test_a_softmax_beside_infinity() -> None:
    x = np.array([[INF, 1, -INF], [INF, NAN, 1], [100, 1, -INF]], F)
    found = opened("nn.softmax", x, axis=-1)
    assert admitted(found, np.zeros(x.shape, F)) == [
        [False, True, True],
        [False] * 3,
        [False] * 3,
    ], "0 / 0 and what is beside NaN are NaN"
    assert admitted(found, np.full(x.shape, 0.5, F)) == [[False] * 3] * 3
    assert admitted(opened("nn.log_softmax", x, axis=-1), np.full(x.shape, -INF, F))[0] == [False, True, True]


def test_not_a_number_in_a_maximum() -> None:
    x = np.array([[NAN, 1, 2], [1, NAN, 2], [1, 3, 2], [NAN, NAN, NAN]], F)
    found = opened("max", x, axis=(1,), keepdims=False)
    assert admitted(found, f(2, 2, 2, -INF)) == [True, True, False, True]
    assert admitted(found, f(1, NAN, 1, np.finfo(F).min)) == [True, True, False, True]
    assert admitted(found, f(1.5, 3, NAN, 7)) == [False] * 4, "3 is a number of another row"
    assert admitted(opened("min", x, axis=(1,), keepdims=False), f(1, 2, 3, INF)) == [True, True, False, True]
    pool = {"pool_size": (3,), "strides": (1,), "padding": (0, 0), "dilation": (1,), "ceil_mode": False}
    assert admitted(opened("nn.max_pool1d", x[None], **pool), f(1, 2, 1, NAN).reshape(1, 4, 1)) == [
        [[True], [True], [False], [True]]
    ]
    assert admitted(opened("maximum", f(NAN, 1, 5), f(1, NAN, 4)), f(1, 2, 4)) == [True, False, False]
    assert admitted(opened("clip", f(NAN, 1), min=0.0, max=6.0), f(6, 0)) == [True, False]
    assert admitted(opened("clip", f(NAN, 1), min=0.0, max=6.0), f(3, 0)) == [False, False]
    unbounded = opened("clip", f(NAN, NAN, NAN, NAN, 1))
    assert admitted(unbounded, f(-INF, INF, np.finfo(F).max, 3, INF)) == [True, True, True, False, False]
    assert admitted(opened("clip", f(NAN, NAN, NAN), max=6.0), f(-INF, 6, INF)) == [True, True, False]
    assert admitted(opened("nn.relu", f(NAN, 1)), f(0, 0)) == [True, False]
    scattered = opened("scatter_nd", f(NAN, 1, 1), np.array([[0], [1], [2]]), f(1, NAN, 5), reduction="max")
    assert admitted(scattered, f(1, 1, 1)) == [True, True, False] and admitted(scattered, f(2, 2, 5)) == [False] * 3
    rows = x[:3]
    places = opened("ArgMax", rows, results=np.array([0, 1, 1]), axis=1)
    assert (
        admitted(places, np.array([2, 0, 0])) == [True, True, False]
        and admitted(places, np.array([3, -1, 0])) == [False] * 3
    )
    hot = opened("Hardmax", rows, results=np.eye(3, dtype=F), axis=-1)
    assert admitted(hot, np.eye(3, dtype=F)[::-1]) == [[True] * 3, [True] * 3, [False] * 3]
    assert admitted(hot, np.ones((3, 3), F)) == [[False] * 3] * 3, "one place is hot, not all"


def test_the_order_of_the_largest() -> None:
    x = np.array([[5, 1, 4, 3], [2, 2, 8, 1]], F)
    values, places = OPERATORS["topk"].value({"k": 3, "axis": 1, "largest": True, "sorted": False}, x)
    found = opened("topk", x, results=(values, places), k=3, axis=1, largest=True, sorted=False)
    assert admitted(found, values[:, ::-1], {1: places[:, ::-1]}) == [[True] * 3] * 2
    assert admitted(found, places[:, ::-1], {0: values[:, ::-1]}, index=1) == [[True] * 3] * 2
    assert admitted(found, places[:, ::-1], {0: values}, index=1) == [[False] * 3] * 2, (
        "the values are in another order"
    )
    assert admitted(found, np.where(values == 3, F(1), values)) == [
        [False] * 3,
        [True] * 3,
    ], "1 is not among the largest"
    assert admitted(found, places * 0, {}, index=1) == [[False] * 3] * 2, "the same place thrice"
    assert not opened("topk", x, results=(values, places), k=3, axis=1, largest=True, sorted=True)
    x[0, 0] = NAN
    found = opened("topk", x, results=(values, places), k=3, axis=1, largest=True, sorted=True)
    assert admitted(found, np.array([[4, NAN, 3], [2, 2, 8]], F), {1: np.array([[2, 0, 3], [0, 1, 2]])}) == [
        [True] * 3,
        [False] * 3,
    ]
    assert (
        admitted(found, np.array([[4, NAN, 3], [2, 2, 8]], F), {1: np.array([[2, 0, 1], [0, 1, 2]])})
        == [[False] * 3] * 2
    )


def test_the_places_of_equal_elements() -> None:
    x = np.array([[3, NAN, 3, 0.0, NAN, -0.0], [1, 2, 3, 4, 5, 6]], F)
    how = {"k": 5, "axis": 1, "largest": True}
    results = OPERATORS["topk"].value(how, x)

    def tied(stable: bool) -> dict[int, list[Opening]]:
        found = opened("topk", x, results=results, **how, stable=stable)
        return {i: [o for o in parts if o.entry.name == "topk.ties"] for i, parts in found.items()}

    assert not any(tied(True).values())
    found = tied(False)
    places = np.array([[4, 1, 2, 0, 5], [5, 4, 3, 2, 1]])
    assert admitted(found, places, index=1) == [[True] * 5, [False] * 5], "the second row is all known"
    for wrong, at in ((0, 0), (3, 2), (6, 4), (-1, 4)):  # a number for NaN, another number, outside
        placed = places.copy()
        placed[0, at] = wrong
        assert not admitted(found, placed, index=1)[0][at], (wrong, at)
    twice = np.array([[4, 4, 2, 0, 5], [5, 4, 3, 2, 1]])
    assert admitted(found, twice, index=1)[0] == [False] * 5, "the same place twice"
    signed = results[0].copy()
    signed[0, 4] = -0.0
    assert admitted(found, signed) == [[False] * 4 + [True], [False] * 5], "either zero"
    whole = i(7, 7, 7)
    first = OPERATORS["topk"].value({"k": 1, "axis": 0, "largest": False}, whole)
    found = opened("topk", whole, results=first, k=1, axis=0, largest=False, stable=False)
    assert [admitted(found, np.array([p]), index=1) for p in (0, 1, 2, 3)] == [[True], [True], [True], [False]]
    empty = OPERATORS["topk"].value({"k": 0, "axis": 0, "largest": True}, whole)
    assert not opened("topk", whole, results=empty, k=0, axis=0, stable=False)


def test_what_has_no_value() -> None:
    x = f(1e20, NAN, 3, -3, -0.5)
    found = opened("astype", x, results=np.zeros(5, np.uint8), dtype="uint8")
    assert admitted(found, np.full(5, 9, np.uint8)) == [True, True, False, True, False]
    least = -TOP - 1
    found = opened("truncate_divide", i(7, least, 7), i(0, -1, 2), results=i(0, 0, 3))
    assert admitted(found, i(1, 2, 4)) == [True, True, False]
    found = opened("left_shift", i(7, 7, 7), i(32, -1, 31), results=i(0, 0, least))
    assert admitted(found, i(1, 2, 4)) == [True, True, False]
    assert admitted(opened("mean", np.zeros((2, 0), F), axis=(1,), keepdims=False), f(0, NAN)) == [True, True]
    assert not opened("mean", np.zeros((2, 1), F), axis=(1,), keepdims=False)
    zeros = opened("DynamicQuantizeLinear", f(0, 0), results=(np.array([3, 3], np.uint8), F(0), np.uint8(3)))
    y = np.array([7, 8], np.uint8)
    assert admitted(zeros, y, {2: np.uint8(7)}) == [
        True,
        False,
    ], "a number that is not the zero point is none of the zeros"
    assert admitted(zeros, np.asarray(F(1)), index=1) is True and admitted(zeros, np.asarray(F(-1)), index=1) is False
    assert not opened("DynamicQuantizeLinear", f(0, 1), results=(y, F(0), np.uint8(3)))


def test_lengths_and_indices() -> None:
    x = f(1, 2, 3, 4).reshape(1, 4)
    attrs = {"mode": b"linear", "coordinate_transformation_mode": b"align_corners"}
    found = opened("Resize", x, f(1, 1.7), results=f(0, 0, 0, 0, 0, 0).reshape(1, 6), **attrs)
    assert admitted(found, f(1, 1.6, 2.2, 2.8, 3.4, 4).reshape(1, 6)) == [[True] * 6]
    assert admitted(found, f(1, 1.6, 2.2, 2.8, 3.5, 4).reshape(1, 6)) == [[True] * 4 + [False, True]]
    assert not opened("Resize", x, f(1, 1.7), results=f(0, 0, 0, 0, 0, 0).reshape(1, 6), mode=b"nearest")
    half = opened("Resize", x, f(1, 0.6), results=f(0, 0).reshape(1, 2), mode=b"linear")
    assert admitted(half, f(1.5, 3.5).reshape(1, 2)) == [[True] * 2]
    for more in ({"antialias": 1}, {"coordinate_transformation_mode": b"half_pixel_symmetric"}):
        assert not opened("Resize", x, f(1, 0.6), results=f(0, 0).reshape(1, 2), mode=b"linear", **more)
    assert not opened("Resize", x, f(1, 0.5), results=f(0, 0).reshape(1, 2), mode=b"linear"), "two of four is whole"
    unpooled = opened("MaxUnpool", f(5, 6), np.array([1, 3]), np.array([5]), results=f(5, 0, 6, 0, 0))
    assert admitted(unpooled, f(0, 5, 0, 6, 0)) == [True, True, True, True, False]
    assert admitted(unpooled, f(0, 5, 0, 7, 0)) == [True, True, True, False, False]


def test_a_zero_that_is_made_is_of_either_sign() -> None:
    found = opened("Shrink", f(-0.25, 2), results=f(0, 1.5))
    assert admitted(found, f(-0.0, 1.5)) == [True, False] and admitted(found, f(-1e-30, 1.5)) == [False, False]
    assert not opened("Shrink", np.array([0, 2]), results=(np.array([0, 2]),))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_remainder_may_be_made_in_rounded_steps() -> None:
    """By the formula of the text; the rounded quotient may be the next whole number; and nothing of another sign."""
    x, z = f(4300, -4300, 5, 0, INF), f(2.1, 2.1, 3, 2, 2)
    right = f(1.3001952, 0.7998048, 2, 0, NAN)
    found = opened("Mod", x, z, results=right, since=28)
    assert admitted(found, x - np.floor(x / z) * z) == [True, True, True, False, False]
    assert admitted(found, right * f(1.001)) == [False] * 5 and admitted(found, right - z) == [False] * 5
    nearly = np.nextafter(f(6), f(0)), f(2)
    assert not admitted(opened("Mod", *nearly, results=f(2), since=28), f(-0.0))[0], "the sign is the divisor's"
    assert admitted(opened("Mod", *nearly, results=f(2), since=28), f(1.9999995)) == [True]
    by_trunc = opened("Mod", -x, z, results=-right, since=28, fmod=1)
    assert admitted(by_trunc, -x - np.trunc(-x / z) * z) == [True, True, True, False, False]
    assert not opened("Mod", x, z, results=right, since=13), "that text has no formula"
    assert not opened("Mod", i(7), i(2), results=i(1), since=28)


def test_the_sign_of_zero_and_small_results() -> None:
    for name, operands in (
        ("maximum", (f(0.0), f(-0.0))),
        ("nn.relu", (f(-0.0),)),
        ("round", (f(-0.3),)),
        ("fmod", (f(-0.0), f(2))),
    ):
        assert admitted(opened(name, *operands), f(0)) == [True], name
        assert admitted(opened(name, *operands), f(1)) == [False], name
    for name, operands in (
        ("maximum", (f(0.0), f(0.0))),
        ("nn.relu", (f(0.0),)),
        ("round", (f(0.3),)),
        ("add", (f(0.0), f(-0.0))),
    ):
        assert not opened(name, *operands), name
    small = f(3e-39, 1)
    assert admitted(opened("tanh", small), f(2.9999e-39, 0.7)) == [True, False]
    assert admitted(opened("tanh", small), f(2.9e-39, 0.7)) == [False, False]
    x = np.array([-1.5, 0.3])
    assert admitted(opened("nn.gelu_tanh", x), np.array([-0.10042842877952132, 0.3])) == [True, False]


def test_intervals_hold_what_is_left_open_too() -> None:
    """Which is what later operators compute with: the elements beside are as they were."""
    a, b = i(TOP, 5), i(2, 6)
    (opening,) = opened("add", a, b)[0]
    wide = opening.widened(Bounded.exact(a + b))
    assert contains(wide, i(TOP, 11)).tolist() == [True, True] and contains(wide, i(TOP, 12)).tolist() == [True, False]
    (opening,) = opened("max", f(NAN, 1).reshape(1, 2), axis=(1,), keepdims=False)[0]
    assert contains(opening.widened(f(NAN)), f(1)).all() and contains(opening.widened(f(NAN)), f(NAN)).all()


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: e.name)
def test_an_entry_names_operators_and_quotes_its_standard(entry: Any) -> None:
    """An ONNX source stands in the operator's documentation, or says that this is silent."""
    standard = {s.name for s in onnx.defs.get_all_schemas()}
    assert all(o in OPERATORS or o in standard for o in entry.operators) and set(entry.standard) <= standard
    assert entry.sources and entry.condition and entry.allowed
    for source in entry.sources:
        name, _, since = source.document.removeprefix("ONNX ").partition("-")
        if not source.document.startswith("ONNX "):
            continue
        assert name in standard
        if source.words:
            schema = onnx.defs.get_schema(name, int(since)) if since else onnx.defs.get_schema(name)
            parts = [
                schema.doc,
                *(a.description for a in schema.attributes.values()),
                *(p.description for p in schema.inputs),
            ]
            assert plain(source.words) in plain(" ".join(map(str, parts))), source


def plain(text: str) -> str:
    return re.sub(r"[\s`*\\]+", " ", text).casefold()


def test_the_mean_of_losses_some_of_which_are_ignored() -> None:
    x, labels = f(-1, -2, -3, -5).reshape(2, 2), np.array([0, 1])
    found = opened("NegativeLogLikelihoodLoss", x, labels, results=F(5), ignore_index=0)
    assert admitted(found, F(2.5)) is True and admitted(found, F(2.4)) is False
    assert not opened("NegativeLogLikelihoodLoss", x, labels, results=F(5), ignore_index=2)
    assert not opened("NegativeLogLikelihoodLoss", x, labels, results=F(5))
    assert not opened("NegativeLogLikelihoodLoss", x, labels, f(1, 1), results=F(5), ignore_index=0)
    assert not opened("NegativeLogLikelihoodLoss", x, labels, results=F(5), ignore_index=0, reduction=b"sum")
    scores = f(7, 7, 3, 3).reshape(2, 2)
    found = opened("SoftmaxCrossEntropyLoss", scores, labels, results=(F(np.log(2)), scores), ignore_index=0)
    assert admitted(found, F(np.log(2) / 2)) is True and admitted(found, F(0.3466)) is False
    every = opened("NegativeLogLikelihoodLoss", x, labels * 0, results=F(NAN), ignore_index=0)
    assert admitted(every, F(0)) is True and admitted(every, F(1)) is False

"""Trigonometry, bits, scans and choices: values, bounds, labels; and the numbers of the narrowest types."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from assay.semantics.bounds import Bounded, contains
from assay.semantics.dtypes import DTYPES, FLOAT32, dtype
from assay.semantics.errors import Invalid, Trap
from assay.semantics.ops import OPERATORS
from assay.semantics.ops.functions import TRIGONOMETRY
from assay.semantics.scalar import convert
from tests.semantics.bounding.numeric import run, tensor

F = np.float32
INTERVALS = [(0.2, 0.1), (0.9, 0.05), (-0.5, 0.3), (0.0, 0.25), (1.5, 0.2), (2.0, 0.5), (-3.0, 0.01), (7.0, 0.4)]


@pytest.mark.parametrize("name", TRIGONOMETRY)
def test_an_interval_holds_the_function_of_all_that_it_holds(name: str) -> None:
    """And a result that is off by more than the interval allows is caught."""
    op, exact = OPERATORS[name], getattr(math, name)
    caught = 0
    for centre, radius in INTERVALS:
        with np.errstate(all="ignore"):
            bound = op.value({}, Bounded(np.array([centre]), np.array([radius]), FLOAT32))
        for x in np.linspace(centre - radius, centre + radius, 41):
            try:
                want = np.array([exact(float(x))], F)
            except ValueError:
                want = np.array([np.nan], F)
            assert contains(bound, want).all(), (centre, x)
        caught += int(not contains(bound, np.array([1e6], F)).all())
    assert caught >= 3


@pytest.mark.parametrize("name", TRIGONOMETRY)
def test_a_wrong_function_is_caught(name: str) -> None:
    x = np.linspace(-0.9, 0.9, 20, dtype=F) + F(2 if name == "acosh" else 0)
    bound, value = OPERATORS[name].value({}, Bounded.exact(x)), run(name, x)
    assert contains(bound, value).all() and not contains(bound, value + F(1e-5)).any()


def test_a_pole_of_the_tangent_says_nothing() -> None:
    bound = OPERATORS["tan"].value({}, Bounded(np.array([1.57, 0.5]), np.array([0.01, 0.01]), FLOAT32))
    assert np.isinf(bound.radius).tolist() == [True, False]


@pytest.mark.parametrize("of", ["int4", "uint4", "int2", "uint2", "int8", "uint64"])
def test_bits_of_narrow_integers(of: str) -> None:
    t = DTYPES[of]
    numbers = np.array([int(t.min), int(t.max), 1], object).astype(t.numpy)
    inverted = [int(v) for v in run("bitwise_not", numbers)]
    assert inverted == [int(t.max), int(t.min), int(t.max) - 1 if t.kind == "uint" else -2]
    assert run("bitwise_xor", numbers, numbers).dtype == t.numpy


@pytest.mark.parametrize("of", ["int4", "uint4", "int2", "int8", "uint64"])
def test_a_shift_by_the_width_traps(of: str) -> None:
    t = DTYPES[of]
    one, most = (np.array([v], object).astype(t.numpy) for v in (1, min(t.bits - 1, int(t.max))))
    assert int(run("right_shift", run("left_shift", one, one), one)[0]) in (1, -1)
    run("left_shift", one, most)
    beyond = np.array([t.bits if t.bits <= int(t.max) else int(t.min)], object).astype(t.numpy)
    with pytest.raises(Trap, match=r"scalar\.T2"):
        run("left_shift", one, beyond)


SCANS: list[tuple[str, dict[str, Any], list[int]]] = [
    ("cumsum", {}, [1, 3, 6, 10]),
    ("cumsum", {"exclusive": True}, [0, 1, 3, 6]),
    ("cumsum", {"reverse": True}, [10, 9, 7, 4]),
    ("cumsum", {"reverse": True, "exclusive": True}, [9, 7, 4, 0]),
    ("cumprod", {}, [1, 2, 6, 24]),
    ("cumprod", {"reverse": True, "exclusive": True}, [24, 12, 4, 1]),
]


@pytest.mark.parametrize(("name", "attrs", "want"), SCANS)
def test_running_totals(name: str, attrs: dict[str, Any], want: list[int]) -> None:
    x = np.array([1, 2, 3, 4])
    assert run(name, x, axis=0, **attrs).tolist() == want
    bound = OPERATORS[name].value(OPERATORS[name].check_attrs({"axis": 0, **attrs}), Bounded.exact(x.astype(F)))
    assert contains(bound, np.array(want, F)).all() and not contains(bound, np.array(want, F) + F(0.01)).any()
    assert run(name, np.zeros((0, 2), F), axis=0, **attrs).shape == (0, 2)


def test_topk_of_more_than_there_are() -> None:
    """What the type rule sees with numbers, a run finds where the size is a symbol."""
    with pytest.raises(Trap, match=r"k is 6, but axis 0 has 5 elements.*topk\.T1"):
        OPERATORS["topk"].value(OPERATORS["topk"].check_attrs({"k": 6}), np.zeros(5, F))


def test_topk_orders_nan_and_ties() -> None:
    x = np.array([2, np.nan, 2, np.inf, -1], F)
    assert run("topk", x, k=5)[1].tolist() == [1, 3, 0, 2, 4]
    assert run("topk", x, k=5, largest=False)[1].tolist() == [4, 0, 2, 3, 1]
    unsigned = np.array([0, 2**64 - 1, 5], np.uint64)
    assert run("topk", unsigned, k=3)[0].tolist() == [2**64 - 1, 5, 0]
    narrow = np.array([3, -8, 7, 3]).astype(DTYPES["int4"].numpy)
    assert run("topk", narrow, k=4)[1].tolist() == [2, 0, 3, 1]
    assert run("topk", narrow, k=4, largest=False)[1].tolist() == [1, 0, 3, 2]


@pytest.mark.parametrize(
    ("most", "want"),
    [(0, []), (1, [(0, 2), (1, 1)]), (2, [(0, 2), (0, 0), (1, 1)]), (9, [(0, 2), (0, 0), (0, 3), (1, 1)])],
)
def test_boxes_are_chosen_up_to_the_most_and_while_there_are_any(most: int, want: list[tuple[int, int]]) -> None:
    """Of class 0 box 1 is in the way of box 0, which comes first; of class 1 one box is allowed, another is NaN."""
    scores = np.array([[[5, 5, 9, 1], [np.nan, 2, 8, 8]]], F)
    allowed = np.array([[[True] * 4, [True, True, False, False]]])
    overlaps = np.eye(4, dtype=bool)[None]
    overlaps[0, 0, 1] = overlaps[0, 1, 0] = True
    rows, count = run("suppress", scores, allowed, overlaps, np.array([most]))
    assert count.tolist() == [len(want)] and rows.shape == (8, 3)
    assert rows.tolist() == [[0, *row] for row in want] + [[0, 0, 0]] * (8 - len(want))


def test_topk_of_intervals() -> None:
    x = Bounded(np.array([1.0, 1.1, 5.0]), np.array([0.2, 0.2, 0.1]), FLOAT32)
    values, places = OPERATORS["topk"].value({"k": 2, "axis": 0, "largest": True}, x)
    assert contains(values, np.array([5, 1.2], F)).all() and not contains(values, np.array([4, 0.8], F)).any()
    assert contains(places, np.array([2, 0])).all() and contains(places, np.array([2, 1])).all()
    assert not contains(places, np.array([0, 2]))[0], "5 is above both"


@pytest.mark.parametrize("largest", [True, False])
def test_places_of_intervals_are_those_of_all_numbers_in_them(largest: bool) -> None:
    rng = np.random.default_rng(7)
    decided = undecided = 0
    for _ in range(200):
        n, k = 5, int(rng.integers(1, 6))
        centres = rng.integers(-8, 9, (2, n)).astype(float)
        radii = rng.choice([0.0, 0.5, 1.0, np.inf], (2, n), p=[0.5, 0.3, 0.18, 0.02])
        centres[rng.random((2, n)) < 0.02] = np.nan
        attrs = {"k": k, "axis": 1, "largest": largest}
        _, places = OPERATORS["topk"].value(attrs, Bounded(centres, radii, FLOAT32))
        places = places if isinstance(places, Bounded) else Bounded.exact(places)
        decided, undecided = decided + int((places.radius == 0).sum()), undecided + int((places.radius > 0).sum())
        for _ in range(10):
            shift = rng.choice([-1.0, 0.0, 1.0], (2, n)) * np.where(np.isinf(radii), 100.0, radii)
            found = OPERATORS["topk"].value(attrs, (centres + shift).astype(F))[1]
            assert contains(places, found).all(), (centres, radii, found)
    assert decided > 100 and undecided > 100


WRONG: list[tuple[str, str, dict[str, Any]]] = [
    ("cumsum.C1", "cumsum", {"axis": "x"}),
    ("cumprod.C2", "cumprod", {"axis": 0, "reverse": 1}),
    ("topk.C1", "topk", {"k": 1, "axis": None}),
    ("topk.C2", "topk", {"k": 1, "largest": 1}),
    ("topk.C3", "topk", {"k": -1}),
    ("topk.C4", "topk", {"k": 4}),
    ("reinterpret.C1", "reinterpret", {"dtype": "int3"}),
    ("reinterpret.C2", "reinterpret", {"dtype": "int64"}),
]


@pytest.mark.parametrize(("label", "name", "attrs"), WRONG, ids=[w[0] for w in WRONG])
def test_each_label(label: str, name: str, attrs: dict[str, Any]) -> None:
    op = OPERATORS[name]
    with pytest.raises(Invalid) as caught:
        op.type_rule(op.check_attrs(attrs), (tensor((3,)),))
    assert caught.value.label == label


def test_reinterpret_keeps_the_bits() -> None:
    x = np.array([1.0, -0.0, np.inf], F)
    assert run("reinterpret", x, dtype="int32").tolist() == [0x3F800000, -(2**31), 0x7F800000]
    assert np.array_equal(run("reinterpret", run("reinterpret", x, dtype="uint32"), dtype="float32"), x)
    assert run("reinterpret", np.array([-1, 1], np.int8), dtype="uint8").tolist() == [255, 1]


def test_float4_has_fifteen_numbers_and_saturates() -> None:
    of = dtype("float4_e2m1fn")
    numbers = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    for k, (low, high) in enumerate(itertools.pairwise(numbers)):
        for part in (0.25, 0.5, 0.75):
            even = low if k % 2 == 0 else high
            want = low if part < 0.5 else high if part > 0.5 else even
            assert float(convert(np.float64(low + part * (high - low)), of)) == want
    for large in (7.0, 1e6, math.inf):
        assert float(convert(np.float64(large), of)) == 6 and float(convert(F(-large), of)) == -6

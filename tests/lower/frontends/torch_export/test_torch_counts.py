"""How often elements occur, and which are different, by hand (specs/lower.md, "torch.export")."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from assay.semantics.errors import Invalid, Trap, Unsupported
from tests.lower.frontends.torch_export.test_torch_core import INF, NAN, Array, f, values


def i(*x: Any) -> Array:
    """Int64."""
    return np.array(x, np.int64)


@pytest.mark.parametrize(
    ("x", "bins", "low", "high", "right"),
    [
        ((0, 1, 1.5, 2, 3), 3, 0, 3, [1, 2, 2]),  # the last bin has its end
        ((-1, NAN, INF, -INF, 4, 0), 2, 0, 3, [1, 0]),
        ((1, 2, 3), 2, 0, 0, [1, 2]),  # the limits of the data
        ((5, 5), 3, 0, 0, [0, 2, 0]),  # from 4 to 6
        ((5,), 4, 2, 2, [0, 0, 1, 0]),
        ((), 3, 0, 0, [0, 0, 0]),
        ((0.5,), 1, 0, 1, [1]),
    ],
)
def test_elements_in_bins(x: tuple[float, ...], bins: int, low: float, high: float, right: list[float]) -> None:
    assert values("histc", self=f(*x), bins=bins, min=low, max=high) == [right]


def test_bins_without_limits_are_refused() -> None:
    with pytest.raises(Invalid, match="max is not the smaller"):
        values("histc", self=f(1), bins=2, min=2, max=1)
    with pytest.raises(Invalid, match="bins is 0"):
        values("histc", self=f(1), bins=0, min=0, max=1)
    with pytest.raises(Unsupported, match="float16"):
        values("histc", self=np.float16([1]), bins=1, min=0, max=1)
    for x in (NAN, INF):
        with pytest.raises(Trap, match="not finite"):
            values("histc", self=f(x, 1), bins=2, min=0, max=0)


def test_numbers_that_occur() -> None:
    assert values("bincount", self=i(1, 3, 1)) == [[0, 2, 0, 1]]
    assert values("bincount", self=i(1, 3, 1), minlength=6) == [[0, 2, 0, 1, 0, 0]]
    assert values("bincount", self=i(0), minlength=0) == [[1]]
    assert values("bincount", self=i()) == [[]]
    assert values("bincount", self=i(), minlength=2) == [[0, 0]]
    assert values("bincount", self=i(1, 1), weights=f(0.5, 2)) == [[0, 2.5]]
    assert values("bincount", self=np.uint8([2]), weights=i(3)) == [[0, 0, 3.0]]
    with pytest.raises(Trap, match="negative"):
        values("bincount", self=i(1, -1))


def test_repeats_that_a_run_knows() -> None:
    x = f([1, 2], [3, 4])
    many = "self_Tensor"
    assert values("repeat_interleave", many, self=x, repeats=i(2, 1), dim=0) == [[[1, 2], [1, 2], [3, 4]]]
    assert values("repeat_interleave", many, self=x, repeats=i(0, 2), dim=-1) == [[[2, 2], [4, 4]]]
    assert values("repeat_interleave", many, self=x, repeats=i(0, 2, 0, 1)) == [[2, 2, 4]]
    assert values("repeat_interleave", many, self=x, repeats=i(2)) == [[1, 1, 2, 2, 3, 3, 4, 4]]
    assert values("repeat_interleave", many, self=x, repeats=i(0, 0), dim=0) == [[]]
    assert values("repeat_interleave", many, self=x, repeats=i(1, 0), dim=0, output_size=1) == [[[1, 2]]]
    assert values("repeat_interleave", "Tensor", repeats=np.int32([0, 3, 1])) == [[1, 1, 1, 2]]
    assert values("repeat_interleave", "Tensor", repeats=i()) == [[]]
    with pytest.raises(Trap, match="negative"):
        values("repeat_interleave", many, self=x, repeats=i(3, -1), dim=0)
    with pytest.raises(Trap, match="output_size"):
        values("repeat_interleave", many, self=x, repeats=i(1, 1), dim=0, output_size=3)


ALL = {"return_inverse": True, "return_counts": True}


def test_elements_without_repetition() -> None:
    assert values("_unique2", self=i([3, 1], [3, 2]), **ALL) == [[1, 2, 3], [[2, 0], [2, 1]], [1, 1, 2]]
    assert values("_unique2", self=i(3, 3)) == [[3], [], []]
    found, inverse, counts = values("_unique2", self=f(NAN, -0.0, INF, NAN, 0.0), **ALL)
    np.testing.assert_array_equal(found, [0, INF, NAN, NAN])  # each NaN is another one
    assert np.signbit(found[0])
    assert (inverse, counts) == ([2, 0, 1, 3, 0], [2, 1, 1, 1])
    assert values("_unique2", self=f(), **ALL) == [[], [], []]
    assert values("_unique2", self=np.array(5), **ALL) == [[5], 0, [1]]
    assert values("_unique2", self=np.array([True, False, True]), **ALL) == [[False, True], [1, 0, 1], [1, 2]]
    with pytest.raises(Unsupported, match="order open"):
        values("_unique2", self=i(1), sorted=False)


def test_elements_that_differ_from_the_one_before() -> None:
    assert values("unique_consecutive", self=i(2, 2, 1, 2), **ALL) == [[2, 1, 2], [0, 0, 1, 2], [2, 1, 1]]
    found, _, counts = values("unique_consecutive", self=f(NAN, NAN, -0.0, 0.0), return_counts=True)
    np.testing.assert_array_equal(found, [NAN, NAN, 0])
    assert counts == [1, 1, 2]
    assert values("unique_consecutive", self=f(), **ALL) == [[], [], []]
    with pytest.raises(Unsupported, match="slices"):
        values("unique_consecutive", self=i(1), dim=0)


def test_the_most_frequent_element() -> None:
    """Of equally many the smallest; its place may be any where it is."""
    value, place = values("mode", self=i([3, 1, 3, 1, 2], [5, 4, 3, 2, 1]))
    assert value == [1, 1]
    assert place[0] in (1, 3)
    assert place[1] == 4
    assert values("mode", self=i([1, 2], [1, 3]), dim=0, keepdim=True)[0] == [[1, 2]]
    assert values("mode", self=f(INF, INF, 1))[0] == INF
    assert values("mode", self=np.array(7.0)) == [7, 0]
    assert values("mode", self=np.array([True, False]))[0] is False
    assert values("mode", self=np.uint8([255, 255, 0]))[0] == 255
    with pytest.raises(Trap, match="NaN"):
        values("mode", self=f(NAN, 1))
    with pytest.raises(Invalid, match="no elements"):
        values("mode", self=np.zeros((2, 0)))

"""Laws of interval analysis: every value is inside, and the ends of the simple operations are attained."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import assume, given, strategies as st

from assay.semantics.dtypes import DTYPES, INT64
from assay.semantics.integers.ranges import (
    EVERYTHING,
    Range,
    at_least,
    at_most,
    closed,
    compare,
    dtype_range,
    fits_dtype,
    meet,
    reach,
    union,
)

MEANING = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "neg": lambda x: -x,
    "abs": abs,
    "min": min,
    "max": max,
    "select": lambda c, x, y: x if c else y,
    "floordiv": lambda x, y: x // y,
    "floormod": lambda x, y: x % y,
    "truncdiv": lambda x, y: abs(x) // y * (1 if x >= 0 else -1),
    "truncmod": lambda x, y: x - abs(x) // y * (1 if x >= 0 else -1) * y,
    "bitand": lambda x, y: x & y,
    "shl": lambda x, y: x << y,
    "shr": lambda x, y: x >> y,
}
"""Unbounded integers; divisors of 1 or more, shifts by 0 or more."""
DIVISIONS = ("floordiv", "floormod", "truncdiv", "truncmod")
LOOSE = ("floormod", "truncmod", "bitand")
"""Those whose ends need not be attained."""
HUGE = st.integers(-(2**70), 2**70)
COMPARISONS = {
    "lt": lambda n: n < 0, "le": lambda n: n <= 0, "gt": lambda n: n > 0, "ge": lambda n: n >= 0,
    "eq": lambda n: n == 0, "ne": lambda n: n != 0,
}  # fmt: skip


def second(op: str) -> tuple[int, int]:
    """Where the last operand may lie."""
    return (1, 6) if op in DIVISIONS else (0, 4) if op in ("shl", "shr") else (-6, 6)


@st.composite
def spans(draw: st.DrawFn, least: int, most: int) -> tuple[int, int]:
    low = draw(st.integers(least, most))
    return low, draw(st.integers(low, most))


def operands(op: str) -> list[st.SearchStrategy[tuple[int, int]]]:
    count = MEANING[op].__code__.co_argcount if op not in ("abs", "min", "max") else 1 if op == "abs" else 2
    first = [spans(0, 1)] if op == "select" else []
    return [*first, *(spans(-6, 6) for _ in range(count - 1 - len(first))), spans(*second(op))]


@pytest.mark.parametrize("op", MEANING)
@given(st.data())
def test_all_values_lie_inside_and_the_ends_are_attained(op: str, data: st.DataObject) -> None:
    given_ = [data.draw(s) for s in operands(op)]
    values = [MEANING[op](*point) for point in product(*(range(a, b + 1) for a, b in given_))]
    low, high = closed(reach(op, given_)) or (1, 0)
    if op in LOOSE and low <= high:
        assert low <= min(values) and max(values) <= high
    elif op != "bitand":
        assert (low, high) == (min(values), max(values))


@pytest.mark.parametrize("op", MEANING)
@given(st.data())
def test_an_end_that_is_missing_is_the_limit_of_far_ends(op: str, data: st.DataObject) -> None:
    """What is said of (low, None) holds for every end, and no end is missing that all of them share."""
    given_: list[Range] = [data.draw(s) for s in operands(op)]
    k = data.draw(st.integers(1 if op == "select" else 0, len(given_) - 1))
    a, b = given_[k]
    side = 0 if op in DIVISIONS and k == len(given_) - 1 else data.draw(st.integers(0, 1))
    assert a is not None and b is not None
    far = 40
    opened = [*given_[:k], (None, b) if side else (a, None), *given_[k + 1 :]]
    cut = [*given_[:k], (-far, b) if side else (a, far), *given_[k + 1 :]]
    if op in ("shl", "shr") and k == len(given_) - 1:
        return  # a shift by less than 0 is none, and one by more than 63 is not looked into
    low, high = reach(op, opened)
    least, most = reach(op, cut)
    assert low is None or (least is not None and low <= least), (opened, cut)
    assert high is None or (most is not None and high >= most), (opened, cut)
    if op not in LOOSE:  # ends that do not move with `far` are ends
        again = reach(op, [*given_[:k], (-2 * far, b) if side else (a, 2 * far), *given_[k + 1 :]])
        assert (low is not None) == (least == again[0]) and (high is not None) == (most == again[1]), (opened, again)


@pytest.mark.parametrize("op", MEANING)
@given(st.data())
def test_numbers_beyond_any_dtype(op: str, data: st.DataObject) -> None:
    """A range of one number gives the one value."""
    count = len(operands(op))
    point = [data.draw(HUGE) for _ in range(count)]
    if op in DIVISIONS:
        assume(point[-1] > 0)
    if op in ("shl", "shr"):
        point[-1] %= 64
    if op == "select":
        point[0] %= 2
    low, high = reach(op, [(n, n) for n in point])
    value = MEANING[op](*point)
    assert low is None and op == "bitand" or low is not None and low <= value
    assert high is None and op == "bitand" or high is not None and value <= high
    assert op in LOOSE or low == high == value


def test_divisors_that_trap_or_turn_the_sign() -> None:
    """By 0 there is no value; of divisors below 0, and of shifts by less than 0, nothing is known."""
    for op in DIVISIONS:
        assert reach(op, [(-9, 9), (0, 3)]) == reach(op, [(-9, 9), (1, 3)])
        assert (
            reach(op, [(0, 9), (0, 0)]) == reach(op, [(0, 9), (-1, 3)]) == reach(op, [(0, 9), EVERYTHING]) == EVERYTHING
        )
    assert reach("floordiv", [(0, 0), (1, None)]) == reach("truncdiv", [(-3, -3), (7, None)]) == (0, 0)
    assert reach("floordiv", [(-3, -3), (7, None)]) == (-1, -1)
    assert (
        reach("shl", [(0, 1), (-1, 2)])
        == reach("shr", [(0, 1), (-1, 2)])
        == reach("shl", [(0, 1), (0, 64)])
        == EVERYTHING
    )
    assert reach("shr", [(-9, 9), (1, 2**62)]) == (-5, 4)


def test_remainders_of_what_is_small_are_itself() -> None:
    assert reach("floormod", [(2, 4), (5, 9)]) == (2, 4) and reach("floormod", [(2, 5), (5, 9)]) == (0, 5)
    assert reach("floormod", [(2, 50), (5, 9)]) == (0, 8) == reach("floormod", [(-1, 4), (5, 9)])
    assert reach("truncmod", [(-2, 50), (5, 9)]) == (-2, 8) and reach("truncmod", [(-50, -1), (5, 9)]) == (-8, 0)


def test_nothing_is_known_of_the_rest() -> None:
    assert reach("bitor", [(0, 1), (0, 1)]) == reach("bitand", [(-3, 9), (-1, 5)]) == EVERYTHING
    assert reach("bitand", [(-3, 9), (0, 5)]) == (0, 5) == reach("bitand", [(2, 9), (1, 5)])


@given(spans(-6, 6), spans(-6, 6))
def test_union_and_meet(a: tuple[int, int], b: tuple[int, int]) -> None:
    around, inside = closed(union(a, b)), closed(meet(a, b))
    assert around is not None and inside is not None
    for n in range(-7, 8):
        assert (a[0] <= n <= a[1] and b[0] <= n <= b[1]) == (inside[0] <= n <= inside[1])
    assert around == (min(a[0], b[0]), max(a[1], b[1]))
    assert union(a, (None, b[1])) == (None, around[1]) and meet(a, EVERYTHING) == a == meet(EVERYTHING, a)


@pytest.mark.parametrize("op", COMPARISONS)
@given(spans(-3, 3))
def test_a_comparison_is_decided_exactly_where_all_agree(op: str, span: tuple[int, int]) -> None:
    found = {COMPARISONS[op](n) for n in range(span[0], span[1] + 1)}
    assert compare(op, span) == (found.pop() if len(found) == 1 else None)
    for ends, opened in (((span[0], 9), (span[0], None)), ((-9, span[1]), (None, span[1])), ((-9, 9), EVERYTHING)):
        far = {COMPARISONS[op](n) for n in range(ends[0], ends[1] + 1)}
        assert compare(op, opened) == (far.pop() if len(far) == 1 else None)


def test_dtypes() -> None:
    for name in ("int4", "int8", "uint8", "int64", "uint64", "bool"):
        of = DTYPES[name]
        low, high = dtype_range(of)
        assert (
            fits_dtype((low, high), of) and not fits_dtype((low - 1, high), of) and not fits_dtype((low, high + 1), of)
        )
        assert not fits_dtype((None, high), of) and not fits_dtype((low, None), of)
    assert dtype_range(INT64) == (-(2**63), 2**63 - 1) and dtype_range(DTYPES["bool"]) == (0, 1)
    assert at_least((0, None), 0) and not at_least((0, None), 1) and not at_least((None, 5), 0)
    assert at_most((None, 5), 5) and not at_most((None, 5), 4) and not at_most((0, None), 4)
    assert closed((1, 2)) == (1, 2) and closed((1, None)) is None is closed((None, 1))

"""Laws of polynomials of sizes: a ring whose values commute with its operations, and one form for each sum."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given, strategies as st

from assay.semantics.errors import Trap
from assay.semantics.integers.polynomials import (
    ZERO,
    Polynomial,
    Polynomials,
    number,
    one,
    polynomial_range,
    value,
)
from assay.semantics.integers.ranges import Range, at_least
from assay.semantics.memory import Bounds
from assay.semantics.scalar import Dim, Var, apply, evaluate_dim, select

N, M = Var("n"), Var("m")
PRODUCTS = st.lists(st.integers(0, 2), min_size=1, max_size=3).map(lambda atoms: tuple(sorted(atoms)))


def polynomials(numbers: st.SearchStrategy[int]) -> st.SearchStrategy[Polynomial]:
    return st.builds(Polynomial.of, st.dictionaries(PRODUCTS, numbers, max_size=3), numbers)


SMALL = polynomials(st.integers(-2, 2))
LARGE = polynomials(st.integers(-(2**70), 2**70) | st.integers(-2, 2))
POINTS = st.lists(st.integers(-(2**66), 2**66) | st.integers(-1, 1), min_size=3, max_size=3)


@given(LARGE, LARGE, LARGE)
def test_polynomials_are_a_ring(a: Polynomial, b: Polynomial, c: Polynomial) -> None:
    assert a + b == b + a and (a + b) + c == a + (b + c) and a - a == ZERO and a + ZERO == a
    assert a.times(b) == b.times(a) and a.times(b).times(c) == a.times(b.times(c))
    assert a.times(b + c) == a.times(b) + a.times(c)
    assert a.times(number(1)) == a and a.times(ZERO) == ZERO and a.times(number(-3)) == a.scaled(-3)


@given(LARGE, LARGE, POINTS)
def test_values_commute_with_operations(a: Polynomial, b: Polynomial, at: list[int]) -> None:
    x, y = value(a, at), value(b, at)
    assert value(a + b, at) == x + y and value(a - b, at) == x - y and value(a.times(b), at) == x * y
    assert value(number(2**90), at) == 2**90 and value(one(()), at) == 1 and value(one((0, 2)), at) == at[0] * at[2]


@given(SMALL, SMALL, SMALL)
def test_a_polynomial_is_canonical(a: Polynomial, b: Polynomial, c: Polynomial) -> None:
    """Equal, with one hash and one order of its terms, exactly if of equal value: 4 points for each degree up to 3."""
    for x, y in ((a, b), (a.times(b), b.times(a)), (a + b - c, a - c + b)):
        if max((len(p) for p in (*x.terms, *y.terms)), default=0) <= 3:
            alike = all(value(x, p) == value(y, p) for p in product(range(4), repeat=3))
            assert (x == y) == alike and (x.ordered == y.ordered or not alike) and (not alike or hash(x) == hash(y))
        assert all(x.terms.values()) and [p for p, _ in x.ordered] == sorted(x.terms)


ENDS = st.integers(-3, 3).flatmap(lambda low: st.tuples(st.just(low), st.integers(low, 3)))


@given(SMALL, st.lists(ENDS, min_size=3, max_size=3))
def test_all_values_lie_in_the_range(a: Polynomial, ends: list[tuple[int, int]]) -> None:
    low, high = polynomial_range(a, ends)
    values = [value(a, p) for p in product(*(range(least, most + 1) for least, most in ends))]
    assert low is not None and high is not None and low <= min(values) and max(values) <= high
    if len(a.terms) == 1 and all(len(set(p)) == len(p) for p in a.terms):  # every atom once
        assert (low, high) == (min(values), max(values))
    for k in range(3):
        opened: list[Range] = [*ends[:k], (ends[k][0], None), *ends[k + 1 :]]
        least, most = polynomial_range(a, opened)
        assert (least is None or least <= low) and (most is None or most >= high)


# --- of expressions --------------------------------------------------------------------------------------------------


ONE = ("neg", "abs")
DIVISIONS = ("floordiv", "floormod", "truncdiv", "truncmod")
SHIFTS = ("shl", "shr")
OTHERS = ("add", "sub", "mul", "max", "min", "select", "bitxor")


@st.composite
def dims(draw: st.DrawFn, depth: int = 3) -> Dim:
    if not depth or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from([N, M]) | st.integers(-4, 9))
    a, b = draw(dims(depth - 1)), draw(dims(depth - 1))
    op = draw(st.sampled_from([*ONE, *DIVISIONS, *SHIFTS, *OTHERS]))
    if op in DIVISIONS:
        b = draw(st.sampled_from([1, 2, 3, 8, M, -2, b]))
    if op in SHIFTS:
        b = draw(st.integers(0, 3))
    if op == "select":
        return select(apply("lt", a, b), a, b)
    return apply(op, a) if op in ONE else apply(op, a, b)


BOUNDS: list[Bounds] = [
    {N: (0, 3), M: (1, 4)},
    {N: (-3, 2), M: (0, 1)},
    {N: (0, 0), M: (1, 1)},
    {N: (5, None), M: (2, None)},
]


@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
@given(dim=dims())
def test_a_polynomial_has_the_value_of_its_expression(bounds: Bounds, dim: Dim) -> None:
    """Everywhere within the bounds; and each atom, and the whole, stays in its range."""
    sizes = Polynomials(bounds)
    found = sizes.of(dim)
    ends = [(low, low + 4 if high is None else high) for low, high in (bounds[N], bounds[M])]
    for n, m in product(*(range(low, high + 1) for low, high in ends)):
        at = {N: n, M: m}
        try:
            expected, values = evaluate_dim(dim, at), sizes.values(at)
        except Trap:
            continue
        assert value(found, values) == expected
        for x, (low, high) in zip((*values, expected), (*sizes.ranges, sizes.range(found)), strict=True):
            assert (low is None or low <= x) and (high is None or x <= high)


ALIKE: list[tuple[Any, Any]] = [
    ((N + M) * (N - M), N * N - M * M),
    ((N + 1) * (N + 1) * (N + 1), N * N * N + 3 * N * N + 3 * N + 1),
    ((6 * N + 9) // 3, 2 * N + 3),
    ((8 * N * M + 3) // 8, N * M),
    ((N // 4) * 4 + N % 4, 1 * N),
    (apply("max", N, M) + 2, apply("max", M + 2, N + 2)),
    (apply("max", 6 * N, 4 * M), 2 * apply("max", 3 * N, 2 * M)),
    (apply("min", N, N + M), 1 * N),
]


@pytest.mark.parametrize(("a", "b"), ALIKE, ids=str)
def test_equal_sizes_have_one_polynomial(a: Dim, b: Dim) -> None:
    sizes = Polynomials({})
    assert sizes.of(a) == sizes.of(b)
    assert sizes.of(a) != sizes.of(apply("add", b, 1)) and sizes.of(a) != sizes.of(apply("mul", b, 2))


def test_only_what_is_shown_is_opened() -> None:
    """A quotient by what may be 0, and a maximum of which neither is larger, stay as they are."""
    sizes = Polynomials({M: (0, 3)})
    assert sizes.of(N // M * M + N % M) != sizes.of(N) and sizes.of(apply("max", N, M)) not in (
        sizes.of(N),
        sizes.of(M),
    )
    positive = Polynomials({M: (1, 3)})
    assert positive.of(N // M * M + N % M) == positive.of(N) and at_least(positive.range(positive.of(N // M)), 0)


def test_coefficients_have_no_end() -> None:
    """Nothing wraps: 2 to 62 twice doubled is no 0, as it is in int64."""
    sizes = Polynomials({N: (0, 2**62)})
    huge = sizes.of(N * 2**62 * 4 * N)
    assert huge.ordered == (((0, 0), 2**64),) and sizes.range(huge) == (0, 2**188)
    assert sizes.range(sizes.of(1 - N * N)) == (1 - 2**124, 1)

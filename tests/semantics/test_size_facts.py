"""What assertions of sizes say of the sizes of shapes."""

from __future__ import annotations

import pytest

from assay.semantics.integers.polynomials import Polynomials, without_multiples
from assay.semantics.scalar import Dim, Var, apply, select
from assay.semantics.size_facts import SizeFacts

a, b, c, d = Var("a"), Var("b"), Var("c"), Var("d")
q = (a * b) // c
INNER = select(apply("eq", q, 1), d, q)
OUTER = select(apply("eq", d, 1), 1, INNER)


@pytest.mark.parametrize(
    ("facts", "ones", "others", "same"),
    [
        ([(a * b, c * q)], (a, b), (c, q), True),
        ([(a * b, c * q)], (a, b, 16), (c, 4, q, 4), True),
        ([(a * b, c * q)], (d, a, b), (c, q, d), True),
        ([(a * b, c * q)], (a, b), (c, q, 2), False),
        ([(a * b, c * q)], (a, d), (c, q), False),
        ([(4 * a, 4 * b * c)], (a,), (b, c), True),
        ([(2 * a, 3 * b)], (a,), (b,), False),
        ([(2 * a, 3 * b)], (2, a), (3, b), True),
        ([(a, b), (b, c)], (a,), (c,), True),
        ([(INNER, d), (d, OUTER)], (2, OUTER), (d, 2), True),
        ([], (a, b), (b, a), True),
        ([], (a, b), (c, q), False),
    ],
)
def test_shapes_of_one_size(
    facts: list[tuple[Dim, Dim]], ones: tuple[Dim, ...], others: tuple[Dim, ...], same: bool
) -> None:
    assert SizeFacts().and_(facts).same_size(ones, others) is same
    assert SizeFacts().and_(facts).same_size(others, ones) is same


def test_a_remainder_is_less_by_a_multiple() -> None:
    sums = Polynomials({})
    f, g = sums.of(3 * a * a * b + a + 5), sums.of(a * b - 2)
    assert without_multiples(f, g) == sums.of(7 * a + 5)
    assert without_multiples(f, sums.of(2 * a * b - 1)) == f, "3 is no multiple of 2"
    assert without_multiples(f, sums.of(0)) == f

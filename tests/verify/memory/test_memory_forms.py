"""Forms of sizes: where their values lie, by trying all; what is one form; and which facts are found (specs/verify.md,
"Memory plans")."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from assay.semantics.dtypes import INT32, INT64
from assay.semantics.integers.polynomials import ZERO, Extreme, PolynomialQuotient, Unknown, number
from assay.semantics.integers.ranges import Range
from assay.semantics.memory import Bounds, Plan
from assay.semantics.scalar import Dim, Var, apply, cast, evaluate_dim, select
from assay.verify.memory.definition import Fault
from assay.verify.memory.derive import derive
from assay.verify.memory.forms import Forms
from assay.verify.memory.overflow import last
from assay.verify.memory.symbolic import PlanProofs, samples, smaller
from tests.verify.memory.memory_plans import M, N, problem

K = Var("k")
SPANS = [(-3, -1), (-2, 2), (0, 0), (0, 4), (1, 1), (2, 5)]
SINGLE: dict[str, Any] = {
    "sum": lambda n, m: n + m,
    "difference": lambda n, m: n - m,
    "multiple": lambda n, m: 3 * n - 2 * m,
    "product": lambda n, m: n * m,
    "maximum": lambda n, m: apply("max", n, m),
    "minimum": lambda n, m: apply("min", n, m),
    "quotient": lambda n, m: n // 3,
    "either": lambda n, m: select(apply("lt", n, m), n, m) if n is not m else n,
}


@pytest.mark.parametrize("name", SINGLE)
def test_ranges_are_the_least_and_the_greatest_value(name: str) -> None:
    """Of one operation on two symbols, with all bounds near 0: what trying all values gives, or for a choice no
    less."""
    dim = SINGLE[name](N, M)
    for n, m in product(SPANS, SPANS):
        forms = Forms({N: n, M: m})
        tried = [evaluate_dim(dim, {N: a, M: b}) for a in range(n[0], n[1] + 1) for b in range(m[0], m[1] + 1)]
        least, most = forms.range(forms.of(dim))
        if name == "either":  # both ends are taken for possible
            assert (least, most) == (min(n[0], m[0]), max(n[1], m[1]))
        else:
            assert (least, most) == (min(tried), max(tried)), (n, m)


def test_ranges_of_quotients_by_what_is_not_fixed() -> None:
    for n, m in product(SPANS, [(1, 1), (1, 4), (3, 5)]):
        forms = Forms({N: n, M: m})
        tried = [a // b for a in range(n[0], n[1] + 1) for b in range(m[0], m[1] + 1)]
        assert forms.range(forms.of(N // M)) == (min(tried), max(tried)), (n, m)


OPEN: tuple[tuple[Dim, Bounds, Range], ...] = (
    (N, {}, (0, None)),
    (-1 * N, {}, (None, 0)),
    (N - M, {}, (None, None)),
    (N * M, {}, (0, None)),
    (N * M, {N: (2, None), M: (3, None)}, (6, None)),
    (N * M, {M: (0, 0)}, (0, 0)),
    (N * M, {N: (-1, None)}, (None, None)),
    (N * M, {N: (-2, 3), M: (1, None)}, (None, None)),
    (apply("max", N, M - 5), {}, (0, None)),
    (apply("max", N, 3), {}, (3, None)),
    (apply("min", N, 3), {}, (0, 3)),
    (apply("min", N, M - 5), {N: (0, 7)}, (-5, 7)),
    (N // M, {M: (1, None)}, (0, None)),
    (N // M, {N: (9, 20), M: (2, None)}, (0, 10)),
    ((-1 - N) // M, {M: (1, None)}, (None, -1)),
    ((-1 - N) // M, {N: (3, 6), M: (1, None)}, (-7, -1)),
    ((-1 - N) // M, {N: (3, None), M: (1, 2)}, (None, -2)),
    ((0 - N) // M, {M: (1, None)}, (None, 0)),
    (select(apply("lt", N, M), N, 3), {N: (1, None)}, (1, None)),
    (select(apply("lt", N, M), N - M, 3), {}, (None, None)),
    (select(apply("lt", N, M), 3, N), {N: (1, 9)}, (1, 9)),
)


@pytest.mark.parametrize("i", range(len(OPEN)))
def test_ranges_without_an_end(i: int) -> None:
    dim, bounds, wanted = OPEN[i]
    forms = Forms(bounds)
    assert forms.range(forms.of(dim)) == wanted


SAME: tuple[tuple[Dim, Dim], ...] = (
    ((N + 1) * (M + 2), N * M + 2 * N + M + 2),
    ((8 * N + 5) // 8, N),
    ((8 * N + 8) // 8, N + 1),
    ((8 * N + 13) // 8, N + 1),
    ((8 * N + 4 * M) // 8, N + (4 * M) // 8),
    ((8 * N + 5) % 8, 0 * N + 5),
    ((8 * N + M) % 8, M % 8),
    (apply("shl", N, 3), 8 * N),
    (apply("shl", N, 0), N),
    (apply("shr", 8 * N, 3), N),
    (apply("shr", N, 62), N // (1 << 62)),
    (apply("neg", N), 0 - N),
    (apply("abs", N), N),
    (apply("truncdiv", N, 3), N // 3),
    (apply("truncmod", N, 3), N % 3),
    (apply("max", N + 1, N), N + 1),
    (apply("min", N + 1, N), N),
    (apply("max", N, 0), N),
    (apply("min", N, 0), 0 * N),
    (apply("max", 0, N), N),
    (apply("max", N, M), apply("max", M, N)),
    (apply("max", K + 4 * N, K + 4 * M), K + 4 * apply("max", N, M)),
    (apply("min", 3 * K + 6 * N, 2 * K + 6 * M), 2 * K + apply("min", K + 6 * N, 6 * M)),
    (apply("max", 4 * N + 8, 4 * M + 8), 8 + 4 * apply("max", N, M)),
)


@pytest.mark.parametrize("i", range(len(SAME)))
def test_what_is_one_form(i: int) -> None:
    """Two ways to write a size that need not be told apart."""
    a, b = SAME[i]
    forms = Forms({})
    assert forms.of(a) == forms.of(b)


def test_a_cast_that_keeps_the_number_is_none() -> None:
    for top, same in ((1 << 31, False), ((1 << 31) - 1, True)):
        forms = Forms({N: (0, top)})
        assert (forms.of(cast(cast(N, INT32), INT64)) == forms.of(N)) == same


def test_no_factor_is_0() -> None:
    forms = Forms({})
    n = forms.of(N)
    assert n.scaled(0) == ZERO == n - n == forms.of(0 * N) and not number(0).terms
    assert n.as_number is None is (n + number(3)).as_number and number(3).as_number == 3 and ZERO.as_number == 0
    assert n.scaled(6).divided(3)[0] == n.scaled(2) and n.scaled(6).is_multiple(3)
    assert not (n.scaled(6) + number(1)).is_multiple(3)


def test_a_refutation_is_made_smaller_in_a_bounded_number_of_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 100 symbols, none of which can be smaller."""
    symbols = [Var(f"s{i}") for i in range(100)]
    forms = Forms({})
    for s in symbols:
        forms.of(s)
    work = PlanProofs(problem(), Plan({}, {}), forms, symbols)
    tried: list[dict[Var, int]] = []
    monkeypatch.setattr(PlanProofs, "_confirmed", lambda self, buffers, at: tried.append(at))
    said = work._refuted(dict.fromkeys(symbols, 1000), Fault("inside", "wrong"))
    assert not said.holds and said.data["dims"]["s99"] == 1000 and 400 <= len(tried) <= 500


def test_what_is_not_looked_into() -> None:
    """A divisor that may be 0 or less, a shift by as many bits as there are, a narrow cast, a product of too many
    terms."""
    for dim in (
        N // M,
        N // -2,
        N // (M * 0 + N - M),
        apply("shl", N, 64),
        apply("shl", N, M),
        apply("truncdiv", N - M, M),
    ):
        forms = Forms({})
        forms.of(dim)
        assert isinstance(forms.atoms[-1], Unknown), dim
    forms = Forms({M: (1, None)})
    forms.of(N // M)
    assert isinstance(forms.atoms[-1], PolynomialQuotient)
    symbols = [Var(f"s{i}") for i in range(15)]
    total: Dim = 0
    for s in symbols:
        total = total + s
    forms = Forms({})
    assert len(forms.of(total).terms) == 15 and len(forms.of(total * total).terms) == 1, "225 products are too many"
    less = total - symbols[0]
    assert len(Forms({}).of(less * less).terms) == 14 * 15 // 2


def test_a_maximum_that_is_decided_is_no_atom() -> None:
    for dim in (apply("max", N, M), apply("min", N, M)):
        for m, atoms in (((0, None), 1), ((5, 5), 1), ((4, 4), 0), ((9, None), 0)):
            forms = Forms({N: (2, 4), M: m})
            forms.of(dim)
            assert sum(isinstance(a, Extreme) for a in forms.atoms) == (0 if m[0] >= 4 else atoms), m


FOLLOWS: tuple[tuple[Dim, Bounds], ...] = (
    (apply("max", N, M) - N, {}),
    (apply("max", N, M) - M, {}),
    (M - apply("min", N, M), {}),
    (N - apply("min", N, M), {}),
    (N - 3 * (N // 3), {}),
    (3 * (N // 3) + 2 - N, {}),
    (N - N // 3, {}),
    (N * M - N - M + 1, {N: (1, None), M: (1, None)}),
    (20 - N * M, {N: (1, 4), M: (2, 5)}),
    ((N + 63) // 64 * 64 - N, {}),
    (apply("max", (N + 63) // 64 * 64, M) - N, {}),
)


@pytest.mark.parametrize("i", range(len(FOLLOWS)))
def test_facts_are_found(i: int) -> None:
    """Each is 0 or more for all values, and the search finds facts that show it; of one less it finds none."""
    dim, bounds = FOLLOWS[i]
    forms = Forms(bounds)
    goal = forms.of(dim)
    assert derive(goal, forms, forms.ranges) is not None
    assert derive(forms.of(dim - 1), forms, forms.ranges) is None


def test_facts_are_found_of_products_of_six() -> None:
    """What is left on the way there is no larger than what is asked about."""
    more = tuple(Var(f"f{i}") for i in range(5))
    rest: Dim = more[0] * more[1] * more[2] * more[3] * more[4]
    forms = Forms({})
    forms.of(rest)  # first, so that the maxima are what is outermost
    goal = forms.of(rest * (apply("max", N, M) - N) + rest * (apply("max", M, K) - K))
    assert max(map(len, goal.terms)) == 6
    assert derive(goal, forms, forms.ranges) is not None


# --- numbers to try --------------------------------------------------------------------------------------------------


def test_the_last_that_fits() -> None:
    for low, high in ((0, 0), (0, 9), (5, 6), (3, 100)):
        for end in range(low, high + 1):
            assert last(lambda k, e=end: k <= e, low, high) == end
        assert last(lambda k: False, low, high) is None


def test_smaller_numbers() -> None:
    assert [*smaller(3, 3)] == [] and [*smaller(3, 5)] == [3, 4] and [*smaller(0, 4)] == [0, 1, 2, 3]
    assert [*smaller(0, 100)] == [0, 1, 2, 3, 50, 75, 88, 94, 97, 99]
    for than in range(1, 60):
        found = [*smaller(0, than)]
        assert found == sorted(set(found)) and found[-1] == than - 1


def test_samples_lie_within_the_bounds() -> None:
    forms = Forms({N: (3, 20), M: (1, None)})
    found = [*samples([N, M], forms)]
    assert found[0] == {N: 3, M: 1} and found[1] == {N: 4, M: 2}
    assert all(3 <= at[N] <= 20 and at[M] >= 1 for at in found)
    assert {at[N] for at in found} >= {3, 4, 20} and len({(at[N], at[M]) for at in found}) == len(found)
    assert any(at[N] - 3 < at[M] - 1 for at in found) and any(at[N] - 3 > at[M] - 1 for at in found)

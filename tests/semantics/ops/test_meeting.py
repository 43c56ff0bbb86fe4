"""How sizes meet of which only a run knows whether they are 1: every claim is tried at all small values."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
from hypothesis import given, strategies as st

from assay.semantics import graph
from assay.semantics.errors import Invalid
from assay.semantics.ops.meeting import is_one_or, joined, meeting, never_one, one_or, one_with, parts, wanted_of
from assay.semantics.scalar import Dim, Expr, Var, apply, evaluate_dim, provably_equal, variables
from assay.semantics.types import TensorType

N, M, K = Var("n"), Var("m"), Var("k")
DIMS: list[Dim] = [1, 0, 5, N, M, K, N + M, N + 1, N * 2, apply("min", N, 32), apply("min", N, 1), N // 2 + 1, N * M]


def _values(*dims: Dim) -> Iterator[tuple[int, ...]]:
    """The values of dims at all small values of their symbols."""
    symbols = list(dict.fromkeys(v for d in dims if isinstance(d, Expr) for v in variables(d)))
    for at in product((0, 1, 2, 5), repeat=len(symbols)):
        yield tuple(evaluate_dim(d, dict(zip(symbols, at, strict=True))) for d in dims)


@given(st.lists(st.sampled_from(DIMS), min_size=2, max_size=3))
def test_a_size_that_is_met_is_that_of_numpy(dims: list[Dim]) -> None:
    """Wherever NumPy stretches the sizes to one another, the size of the result is `meeting`, and each cast holds; and
    wherever each cast holds, NumPy stretches them."""
    met = meeting(dims)
    numbers = {d for d in dims if isinstance(d, int)} - {1}
    assert (met is None) == (len(numbers) > 1)
    if met is None:
        return
    for whole, *rest in _values(met, *dims, *(wanted_of(d, met) for d in dims)):
        sizes, casts = rest[: len(dims)], rest[len(dims) :]
        try:
            wanted: int | None = np.broadcast_shapes(*((s,) for s in sizes))[0]
        except ValueError:
            wanted = None
        assert (wanted is not None) == (sizes == casts), (sizes, casts)
        assert wanted is None or whole == wanted
    for d in dims:
        assert is_one_or(wanted_of(d, met), met)


@pytest.mark.parametrize("a", DIMS, ids=str)
@pytest.mark.parametrize("b", DIMS, ids=str)
def test_what_is_said_of_sizes_that_are_1_holds(a: Dim, b: Dim) -> None:
    for x, y in _values(a, b):
        assert not (never_one(a) and x == 1)
        assert not (one_with(a, b) and x == 1 and y != 1)


def test_equals_are_said_in_one_way() -> None:
    """A size that is met again is the same, in whatever order, and taken apart again."""
    whole = joined(N, M)
    assert provably_equal(whole, joined(M, N)) and provably_equal(whole, joined(whole, N))
    assert set(map(str, parts(joined(whole, K)))) == {"n", "m", "k"}
    assert not provably_equal(whole, joined(N, K))


def test_broadcast_to_takes_what_is_shown_to_be_1_or_the_size() -> None:
    """And nothing less: a symbol that may be anything is refused, as is 1 or another size."""

    def stretched(size: Dim) -> graph.Expr:
        return graph.call("broadcast_to", graph.var("x", TensorType((size, 3), "float32")), shape=(M, 3))

    assert str(stretched(one_or(N, M)).type) == "Tensor((m, 3), float32)"
    for size in (N, one_or(N, K)):
        with pytest.raises(Invalid, match=r"broadcast_to\.C3"):
            stretched(size)


def test_products_are_equal_in_any_order() -> None:
    assert provably_equal((N // 4) * (M // 4) + 1, (M // 4) * (N // 4) + 1)
    assert provably_equal((N + 1) * (N + 1), N * N + N * 2 + 1)
    assert not provably_equal((N // 4) * (M // 4), (N // 4) * (M // 3))
    assert not provably_equal(N * M, N * N)

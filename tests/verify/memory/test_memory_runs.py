"""Plans for the sizes of runs: no dim is below 0 there, and elsewhere a plan is asked nothing."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from assay.semantics.integers.narrowing import narrowed
from assay.semantics.memory import BufferInfo, Place, Plan, Problem
from assay.semantics.scalar import Dim, Expr, apply, evaluate_dim
from assay.verify.memory import check_plan, prove_plan
from assay.verify.memory.solve import solve
from tests.verify.memory.memory_plans import M, N, problem

pytestmark = pytest.mark.row("U21")

HALF = apply("floordiv", N, 2) * 2 - 1
"""-1 where N is 0 or 1."""


def stacked(dim: Expr, *, short: int = 0) -> tuple[Problem, Plan]:
    """Two buffers of `dim` floats of M rows, live together, the second behind the first less `short` bytes."""
    size = M * dim * 4
    given = problem(BufferInfo("a", size, ((0, 2),)), BufferInfo("b", size, ((1, 3),)))
    (pool,) = given.pools
    behind: Dim = size - short
    places = {"a": Place(pool.name, 0), "b": Place(pool.name, behind)}
    return replace(given, dims=(M, dim)), Plan(places, {pool.name: size * 2})


@pytest.mark.parametrize("dim", [HALF, N - 3, N - M], ids=["half", "less a number", "less another"])
def test_wrong_only_where_a_dim_is_below_0(dim: Expr) -> None:
    given, plan = stacked(dim)
    proof = prove_plan(given, plan)
    assert proof.evidence.holds, proof.evidence.detail
    assert "no dim being below 0" in proof.evidence.detail
    blind = prove_plan(replace(given, dims=()), plan).evidence
    assert blind.holds is False and blind.data["claim"] == "size", blind.detail
    # every text is asked anew; without its assumption one of them is not unsat
    assert all(solve(text).answer == "unsat" for text in proof.queries.values())


@pytest.mark.parametrize("dim", [HALF, N - 3, N - M], ids=["half", "less a number", "less another"])
def test_wrong_where_all_dims_are_legal(dim: Expr) -> None:
    given, plan = stacked(dim, short=4)
    evidence = prove_plan(given, plan).evidence
    assert evidence.holds is False, evidence.detail
    at = {v: evidence.data["dims"][v.name] for v in (M, N)}
    assert evaluate_dim(dim, at) >= 0
    assert check_plan(given, plan, at).holds is False


def test_bounds_that_follow_leave_out_nothing() -> None:
    dims = [HALF, apply("min", M, N) - 2, 30 - apply("max", M, N * 2), apply("floordiv", 40 - N, 3) - 9]
    found = narrowed({}, dims)
    legal = [(m, n) for m, n in product(range(50), repeat=2) if all(evaluate_dim(d, {M: m, N: n}) >= 0 for d in dims)]
    assert found[M] == (2, 30) and found[N] == (2, 13)
    assert {m for m, _ in legal} <= set(range(2, 31)) and min(n for _, n in legal) == 2
    assert all(found[M][0] <= m <= (found[M][1] or 0) and found[N][0] <= n <= (found[N][1] or 0) for m, n in legal)

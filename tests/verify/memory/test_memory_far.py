"""Every goal about a plan with symbols, broken where no sample is near: the solver finds the place (specs/verify.md,
"Memory plans")."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assay.semantics.memory import BufferInfo, Plan, Problem
from assay.semantics.scalar import Dim, apply, select
from assay.verify.memory import check_plan, prove_plan
from tests.verify.memory.memory_plans import WORK, M, N, plan, problem

pytestmark = pytest.mark.row("U21")

FAR = 54_321
STRANGE = select(apply("eq", N, FAR), 1, 0)
"""1 at one value of n, else 0."""


def one(size: Dim, alignment: int = 1, offset: int | None = None, limit: int | None = None) -> Problem:
    pools = ("workspace",) if offset is not None else ()
    given = problem(BufferInfo("a", size, ((0, 2),), alignment, pools=pools, offset=offset))
    return replace(given, pools=(replace(WORK, limit=limit),))


BROKEN: dict[str, tuple[Problem, Plan, str, str]] = {
    "a buffer has less than 0 bytes": (one(8 - 9 * STRANGE), plan(8, a=0), "size", "buffer a has -1 bytes"),
    "a pool has less than 0 bytes": (problem(), Plan({}, {"workspace": 8 - 9 * STRANGE}), "size",
        "pool workspace has -1 bytes"),
    "a buffer begins before 0": (one(8), plan(8, a=0 - STRANGE), "inside",
        "at offset -1 of pool workspace does not lie within"),
    "a buffer ends after the pool": (one(8 + STRANGE), plan(8, a=0), "inside", "it takes bytes 0 to 8"),
    "a pool is larger than its limit": (one(8, limit=64), plan(64 + STRANGE, a=0), "limit",
        "65 bytes, and its limit is 64"),
    "a buffer is not aligned": (one(8, 16), plan(64, a=16 + STRANGE), "aligned", "is not aligned to 16"),
    "a buffer lies after its place": (one(8, offset=16), plan(64, a=16 + STRANGE), "by hand",
        "was placed at 16 by hand"),
    "a buffer lies before its place": (one(8, offset=16), plan(64, a=16 - STRANGE), "by hand",
        "was placed at 16 by hand"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_goal_that_is_broken_far_away(name: str) -> None:
    given, found, claim, said = BROKEN[name]
    evidence = prove_plan(given, found).evidence
    assert not evidence.holds and evidence.data["claim"] == claim and evidence.data["dims"] == {"n": FAR}, evidence
    assert evidence.detail.startswith(f"for n = {FAR}: ") and said in evidence.detail
    assert check_plan(given, found, {N: FAR - 1}).holds and not check_plan(given, found, {N: FAR}).holds


def test_what_lies_as_it_must_is_proved() -> None:
    """At its place by hand, within the limit, aligned, at all values."""
    bounded = replace(one(N, 16, offset=64, limit=164), bounds={N: (0, 100)})
    assert prove_plan(bounded, plan(64 + N, a=64)).evidence.holds
    assert prove_plan(one(8 * N, 16), plan(24 * N + 8, a=16 * N)).evidence.holds


# --- int64 -----------------------------------------------------------------------------------------------------------


def test_what_never_fits() -> None:
    """Even with n at its least, a step is too large."""
    size = 4 * (N + (1 << 62))
    evidence = prove_plan(one(size), plan(size, a=0)).evidence
    assert evidence.holds is False and evidence.data["claim"] == "overflow" and evidence.data["dims"] == {"n": 0}
    assert evidence.detail == "for n = 0: where buffer a ends is 18446744073709551616, not in int64"


def test_what_nobody_can_bound_is_not_known() -> None:
    """No range is found of n ^ m, and no values at which it is too large: that refutes nothing."""
    size = apply("bitxor", N, M) + 1
    evidence = prove_plan(one(size), plan(size, a=0)).evidence
    assert evidence.holds is None and "not decided: whether a step" in evidence.detail


def test_what_has_no_value_at_a_corner() -> None:
    """At m = 0 there is no n // m: that is no fault of ours, and not known."""
    size = 4 * (N // M)
    given = replace(one(size), bounds={N: (0, 3), M: (0, 3)})
    evidence = prove_plan(given, plan(size, a=0)).evidence
    assert evidence.holds is None and "not decided" in evidence.detail


def test_what_may_not_fit_between_the_corners() -> None:
    given = replace(one(64), bounds={N: (0, 3), M: (0, 3)})
    evidence = prove_plan(given, plan(80 + ((N - M) * (1 << 62)) // (1 << 62), a=8)).evidence
    assert not evidence.holds and evidence.data["claim"] == "overflow" and "not decided: whether" in evidence.detail


def test_where_it_does_not_fit_at_the_least_values() -> None:
    given = replace(one(64), bounds={N: (-(1 << 40), 0), M: (-(1 << 40), 0)})
    evidence = prove_plan(given, plan(apply("max", 64, 0 - N * N * M), a=0)).evidence
    assert not evidence.holds
    assert evidence.data["claim"] in ("overflow", "inside")


def test_the_first_buffers_that_are_not_apart_have_the_smallest_values() -> None:
    """Of two symbols each is made as small as the other allows."""
    given = problem(BufferInfo("a", N * M, ((0, 2),)), BufferInfo("b", 8, ((1, 3),)))
    evidence = prove_plan(given, plan(N * M + 1000, a=0, b=900)).evidence
    dims = evidence.data["dims"]
    assert not evidence.holds and dims["n"] * dims["m"] > 900
    assert (dims["n"] - 1) * dims["m"] <= 900 and dims["n"] * (dims["m"] - 1) <= 900

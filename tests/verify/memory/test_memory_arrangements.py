"""Plans of several arrangements: where no one order serves all sizes, and what the proof of each refuses
(specs/lower.md, "pool"; specs/verify.md, "Memory plans")."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from assay.lower.memory import plan as numbered
from assay.lower.memory.orders import WANTED
from assay.lower.memory.symbolic import plan_symbolic
from assay.semantics.arrangements import in_one
from assay.semantics.memory import BufferInfo, Place, Plan, Pool, Problem, arrangements, chosen, lower_bound
from assay.semantics.scalar import Dim, Var, evaluate_dim
from assay.verify.memory import check_plan, prove_plan

N, M = Var("n"), Var("m")
WORK = Pool("workspace")
POINTS = [{N: n, M: m} for n in (1, 2, 5, 9, 17, 40, 64) for m in (1, 2, 5, 9, 17, 40, 64)]


def crossing(count: int = 40, seed: int = 1) -> Problem:
    """Sizes of which one is the larger here, another there, with lives of different lengths."""
    rng = random.Random(seed)
    sizes: list[Dim] = [4 * N * 64, 4 * M * M, 4 * N * M, 256 * M, 1024]
    lives = [(i, i + rng.choice([1, 2, 2, 3, 3, 5, 12])) for i in range(count) for _ in "a"]
    buffers = (BufferInfo(f"b{i}", rng.choice(sizes), (life,), 64) for i, life in enumerate(lives))
    return Problem(tuple(buffers), (WORK,), {N: (1, 64), M: (1, 64)})


@cache
def made() -> tuple[Problem, Plan]:
    problem = crossing()
    return problem, plan_symbolic(problem, lambda p: numbered(p, "first-fit"))


def worst(problem: Problem, plan: Plan) -> float:
    """The greatest ratio of the pool and the most bytes that live at once, at the points."""
    found = []
    for at in POINTS:
        aligned = (replace(b, nbytes=-(-evaluate_dim(b.nbytes, at) // 64) * 64) for b in problem.buffers)
        size = chosen(plan, lambda dim, at=at: evaluate_dim(dim, at)).sizes["workspace"]  # type: ignore[misc]
        found.append(evaluate_dim(size, at) / lower_bound(aligned))
    return max(found)


def test_several_arrangements_are_better_than_the_best_of_them() -> None:
    problem, plan = made()
    assert len(arrangements(plan)) > 1
    alone = min(worst(problem, one) for one in arrangements(plan))
    together = worst(problem, plan)
    assert together < alone and alone > WANTED
    for at in POINTS[::6]:
        assert check_plan(problem, plan, at).holds


def test_each_arrangement_is_proved() -> None:
    problem, plan = made()
    proof = prove_plan(problem, plan)
    assert proof.evidence.holds and proof.evidence.how == "proved"
    assert proof.evidence.data["arrangements"] == len(arrangements(plan))
    assert {"pool0", "arrangement1-pool0"} <= proof.queries.keys()
    assert proof.evidence.detail.startswith(f"each of {len(arrangements(plan))} arrangements by itself")


def test_choices_are_what_is_taken() -> None:
    _, plan = made()
    one = in_one(plan)
    assert not one.others and in_one(arrangements(plan)[0]).sizes == arrangements(plan)[0].sizes
    for at in POINTS[::4]:

        def number(dim: Dim, at: dict[Var, int] = at) -> int:
            return evaluate_dim(dim, at)

        taken = chosen(plan, number)
        assert number(one.sizes["workspace"]) == number(taken.sizes["workspace"])
        assert [number(p.offset) for p in one.places.values()] == [number(p.offset) for p in taken.places.values()]


def test_the_first_of_equal_arrangements_is_taken() -> None:
    first, second = (Plan({"a": Place("workspace", 64 * k)}, {"workspace": 8 * N + 64}) for k in (0, 1))
    both = replace(first, others=(second,))
    assert chosen(both, lambda dim: evaluate_dim(dim, {N: 8})).places == first.places
    assert evaluate_dim(in_one(both).places["a"].offset, {N: 8}) == 0


# --- planted faults ------------------------------------------------------------------------------------------------


def second(change: Callable[[Plan], Plan]) -> Plan:
    """The plan with a fault in its second arrangement alone."""
    _, plan = made()
    return replace(plan, others=(change(plan.others[0]), *plan.others[1:]))


def overlapping(one: Plan) -> Plan:
    """A buffer where another is that lives with it."""
    return replace(one, places={**one.places, "b1": one.places["b0"]})


def short(one: Plan) -> Plan:
    return replace(one, sizes={"workspace": one.sizes["workspace"] - 64})


def misaligned(one: Plan) -> Plan:
    first = one.places["b0"]
    return replace(one, places={**one.places, "b0": Place(first.pool, first.offset + 4)})


@pytest.mark.parametrize(
    "fault, claim", [(overlapping, "apart"), (short, "inside"), (misaligned, "aligned")], ids=lambda f: str(f)[:12]
)
def test_a_fault_in_one_arrangement_only(fault: Callable[[Plan], Plan], claim: str) -> None:
    problem, _ = made()
    wrong = prove_plan(problem, second(fault)).evidence
    assert wrong.holds is False and wrong.data["arrangement"] == 1, wrong
    assert wrong.detail.startswith(f"arrangement 1 of {len(arrangements(made()[1]))}: for n = ")
    assert wrong.data["claim"] == claim


def lost(one: Plan) -> Plan:
    return replace(one, places={n: p for n, p in one.places.items() if n != "b3"})


def elsewhere(one: Plan) -> Plan:
    return replace(one, places={**one.places, "b3": Place("other", 0)})


def nested(one: Plan) -> Plan:
    return replace(one, others=(replace(one, others=()),))


def unsized(one: Plan) -> Plan:
    return replace(one, sizes={})


@pytest.mark.parametrize(
    "fault, said",
    [
        (lost, "arrangement 1 places other buffers than the first"),
        (elsewhere, "arrangement 1 has buffer b3 in pool other, the first in workspace"),
        (nested, "arrangement 1 has arrangements of its own"),
        (unsized, "arrangement 1 has sizes for other pools than the first"),
    ],
)
def test_arrangements_place_the_same_buffers_in_the_same_pools(fault: Callable[[Plan], Plan], said: str) -> None:
    problem, _ = made()
    wrong = prove_plan(problem, second(fault)).evidence
    assert wrong.holds is False and wrong.detail == said

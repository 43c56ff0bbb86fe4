"""Each wrong planner of memory is caught by the definition of a good plan and by the proof; the right one never is."""

from __future__ import annotations

import pytest

from assay.lower.memory import PLANNERS, plan
from assay.semantics.memory import Problem
from assay.verify.memory import check_plan, prove_plan
from tests.lower.memory.memory_problems import bounded, good, size
from tests.museum.catalogue import is_caught, planted
from tests.museum.faults.planner_faults import FULL, GAPS, ODD, RING, ROUGH, Greedy, Stuck, last_accepted, right
from tests.museum.planted import PlantedFault


@pytest.mark.row("U2", "U11", "U12")
@planted("planner_faults")
def test_the_fault_is_caught(fault: PlantedFault) -> None:
    is_caught(fault)


@pytest.mark.parametrize("problem", [FULL, RING, ODD, GAPS], ids=["full", "ring", "odd", "gaps"])
def test_the_right_planner_is_not(problem: Problem) -> None:
    for made in (plan(problem, name) for name in PLANNERS):
        assert good(problem, made)
        assert check_plan(problem, made).holds
        assert prove_plan(problem, made).evidence.holds


@pytest.mark.row("U2", "U11")
def test_a_reopened_pool_overlaps_on_tvms_own_case() -> None:
    """TVM runs its bounded case on hill climbing alone; its greedy planners would have failed it."""
    caught = 0
    for seed in range(20):
        problem = bounded(40, seed)
        try:
            caught += not good(problem, Greedy(reopens=True)(problem))
        except Stuck:
            continue
        assert good(problem, right(problem))
    assert caught >= 10


@pytest.mark.row("U11")
def test_hill_climbing_that_returns_the_last() -> None:
    """Its plan is good but larger than one that it has met; ours is never above its own start, whatever the effort."""
    worse = [s for s in range(10) if size(last_accepted(ROUGH, seed=s)) > size(last_accepted(ROUGH, seed=s, best=True))]
    assert worse
    for seed in range(5):
        sizes = [size(plan(ROUGH, "hill-climb", seed=seed, effort=12 * n)) for n in (0, 3, 10, 30, 100)]
        assert sizes == sorted(sizes, reverse=True)

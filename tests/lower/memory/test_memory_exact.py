"""The exact planner: the optimum by trying everything, the public instances, its limits, and its claims."""

from __future__ import annotations

import random
import time
from dataclasses import replace

import numpy as np
import pytest

from assay.lower.memory import PLANNERS, plan
from assay.lower.memory.exact.reduction import reduced_problem
from assay.lower.memory.exact.restarts import Attack
from assay.lower.memory.exact.search import Budget, Search, Spent
from assay.lower.memory.problem import IndexedProblem
from assay.semantics.errors import Invalid
from assay.semantics.memory import BufferInfo, Pool, Problem, lower_bound
from tests.lower.memory.memory_problems import (
    BOUNDS,
    CAPACITY,
    CUTS,
    buffers,
    cut_up,
    good,
    layered,
    minimalloc,
    one_pool,
    optimum,
    random_problem,
    scattered,
    size,
)


@pytest.mark.row("U11")
def test_the_optimum_of_small_problems() -> None:
    """Gaps, alignments, buffers placed by hand. No planner is below the optimum, no bound above, no claim false."""
    for seed in range(60):
        rng = random.Random(seed)
        problem = random_problem(rng, rng.randrange(1, 7), positions=8)
        best = optimum(problem)
        for planner in PLANNERS:
            made = plan(problem, planner, effort=50_000 if planner == "exact" else 200)
            first = next((p for p in made.sizes if size(made, p)), "workspace")
            assert good(problem, made)
            assert size(made) >= best, (seed, planner)
            if first == "workspace":
                assert made.bound <= best, (seed, planner)
                assert made.optimal == (made.bound == size(made))
            if planner == "exact":
                assert size(made) == best, seed
                assert made.optimal, seed


@pytest.mark.row("U11")
def test_every_style_of_search_is_complete() -> None:
    """Just below the optimum every search ends without a plan, at the optimum with one: within so many nodes, for what
    is known after each step leaves little to try."""
    nodes = {(tight, there): 0 for tight in (False, True) for there in (False, True)}
    for seed in range(90):
        rng = random.Random(seed)
        problem = random_problem(rng, 6, positions=8)
        inside = tuple(b for b in problem.buffers if b.pools == ("workspace",) and b.nbytes)
        if not inside:
            continue
        if seed % 3:  # without gaps there are valleys
            inside = tuple(replace(b, live=((b.live[0][0], b.live[-1][1]),)) for b in inside)
        part = Problem(inside, problem.pools[:1])
        best = optimum(part)
        layout = IndexedProblem(part)
        r = reduced_problem(layout, range(len(inside)))
        for tight in (False, True):
            rank = np.array(rng.sample(range(len(inside)), len(inside)))
            for capacity, there in ((best - 1, False), (best, True), (best + 3, True)):
                budget = Budget(None)
                found = Search(r, capacity, rank, budget, None, set(), tight).run()
                assert (found is not None) == there, (seed, capacity, best)
                nodes[tight, there] += budget.used
    most = {(False, False): 717, (False, True): 1528, (True, False): 674, (True, True): 1475}
    assert all(nodes[style] <= most[style] for style in most), nodes


@pytest.mark.row("U11")
@pytest.mark.parametrize("limits", [False, True])
def test_it_is_never_above_the_others(limits: bool) -> None:
    for seed in range(10):
        problem = random_problem(random.Random(seed), 14, limits=limits)
        made = plan(problem, "exact", effort=500)
        assert good(problem, made)
        for planner in PLANNERS:
            other = plan(problem, planner, effort=500)
            assert [size(made, p.name) for p in reversed(problem.pools)] <= [
                size(other, p.name) for p in reversed(problem.pools)
            ], (seed, planner)


# --- the public instances ----------------------------------------------------------------------------------------


@pytest.mark.row("U11")
@pytest.mark.parametrize("name", ["A", "C"])
def test_an_instance_at_its_lower_bound(name: str) -> None:
    problem = minimalloc(name)
    assert lower_bound(problem.buffers) == BOUNDS[name]
    made = plan(problem, effort=50_000)
    assert good(problem, made)
    assert (size(made), made.bound, made.optimal) == (BOUNDS[name], BOUNDS[name], True)


@pytest.mark.slow
@pytest.mark.row("U11")
@pytest.mark.parametrize(
    "name",
    [
        *(pytest.param(n, marks=pytest.mark.campaign if n in ("E", "G", "K") else ()) for n in BOUNDS),
        "cut 150",
        "cut 200",
    ],
)
def test_an_instance_reaches_its_capacity(name: str) -> None:
    problem = cut_up(name) if name in CUTS else minimalloc(name)
    made = plan(problem, capacity=CAPACITY, effort=400_000)
    assert good(problem, made)
    assert size(made) <= CAPACITY


# --- claims and limits -------------------------------------------------------------------------------------------


@pytest.mark.row("U11")
def test_more_than_the_lower_bound_is_proved() -> None:
    """Each conflicts with the next: a ring of five, which no two offsets suffice for."""
    ring = [
        BufferInfo(f"r{i}", 4, tuple(sorted(((10 * i, 10 * i + 5), (10 * ((i + 1) % 5), 10 * ((i + 1) % 5) + 5)))))
        for i in range(5)
    ]
    problem = one_pool(*ring)
    assert lower_bound(problem.buffers) == 8
    made = plan(problem)
    assert (size(made), made.bound, made.optimal) == (12, 12, True)
    assert not plan(problem, "first-fit").optimal
    with pytest.raises(
        Invalid, match="does not fit: buffer .* a limit of 12 bytes for workspace would be enough, and nothing less"
    ):
        plan(one_pool(*ring, limit=11))
    assert size(plan(one_pool(*ring, limit=12))) == 12


def test_gaps_that_are_one_clique_count_as_one() -> None:
    """Three buffers that meet pair by pair only cannot share a byte: the bound is the sum of all."""
    trio = [
        BufferInfo("a", 4, ((0, 1), (4, 5))),
        BufferInfo("b", 4, ((0, 1), (2, 3))),
        BufferInfo("c", 4, ((2, 3), (4, 5))),
    ]
    made = plan(one_pool(*trio))
    assert lower_bound(trio) == 8
    assert (size(made), made.bound, made.optimal) == (12, 12, True)


def test_alignment_counts_only_below() -> None:
    """Sizes are rounded up to the alignment, but not the last one's: what loses most lies on top."""
    made = plan(one_pool(*(BufferInfo(n, 65, ((0, 1),), 64) for n in "ab"), BufferInfo("c", 3, ((0, 1),), 64)))
    assert (size(made), made.bound, made.optimal) == (64 + 128 + 65, 64 + 128 + 65, True)


def test_a_capacity_is_enough_and_then_it_stops() -> None:
    problem = one_pool(*buffers(scattered(40, 2)))
    loose = size(plan(problem, "first-fit"))
    assert size(plan(problem, capacity=loose)) <= loose
    least = plan(problem)
    below = plan(problem, capacity=least.bound - 1)
    assert good(problem, below)
    assert size(below) >= least.bound


@pytest.mark.row("U11")
def test_the_same_plan_each_time() -> None:
    problem = minimalloc("G")
    first = plan(problem, effort=1500, seed=4)
    assert first == plan(problem, effort=1500, seed=4)


def test_a_time_limit_ends_it() -> None:
    problem = minimalloc("E")
    begin = time.monotonic()
    made = plan(problem, time_limit=0.5, capacity=CAPACITY - 1)  # below the most live at once
    assert time.monotonic() - begin < 5
    assert good(problem, made)
    told: list[str] = []
    made = plan(problem, time_limit=2, progress=told.append, seed=9)
    assert good(problem, made)
    assert any("not below 1048576" in words for words in told)


def test_a_search_can_be_interrupted() -> None:
    """Ctrl-C in the middle comes out as it is, and leaves nothing behind."""

    def interrupt(words: str) -> None:
        raise KeyboardInterrupt

    problem = minimalloc("E")
    with pytest.raises(KeyboardInterrupt):
        plan(problem, effort=5000, progress=interrupt)
    assert good(problem, plan(problem, effort=100))


def test_an_attack_can_be_taken_up_again() -> None:
    problem = minimalloc("A")
    layout = IndexedProblem(problem)
    attack = Attack(reduced_problem(layout, range(len(problem.buffers))), CAPACITY, 0)
    with pytest.raises(Spent):
        attack.run(Budget(100))
    assert attack.run(Budget(100_000)) is not None


def test_deep_is_no_recursion() -> None:
    """A search is as deep as there are buffers."""
    problem = one_pool(*(BufferInfo(f"b{i}", 1 + i % 3, ((i, i + 2),)) for i in range(2000)))
    layout = IndexedProblem(problem)
    r = reduced_problem(layout, range(len(problem.buffers)))
    assert Search(r, 5, np.arange(len(problem.buffers)), Budget(50_000), None, set()).run() is not None


@pytest.mark.campaign
def test_a_long_program_is_optimal() -> None:
    problem = layered(random.Random(2), 3000)
    made = plan(problem)
    assert good(
        replace(problem, buffers=problem.buffers[:50]),
        replace(made, places={b.name: made.places[b.name] for b in problem.buffers[:50]}),
    )
    assert size(made) <= 1.05 * made.bound


@pytest.mark.row("U2", "U11")
def test_pools_are_filled_by_priority() -> None:
    """Six buffers of 4 that all conflict, pools of 10 and 8: two in each, and the rest where there is no limit."""
    six = tuple(BufferInfo(n, 4, ((0, 1),)) for n in "abcdef")
    made = plan(Problem(six, (Pool("fast", limit=10), Pool("middle", limit=8), Pool("slow"))))
    assert dict(made.sizes) == {"fast": 8, "middle": 8, "slow": 8}
    assert made.optimal
    apart = Problem(
        (BufferInfo("a", 6, ((0, 1),)), BufferInfo("b", 6, ((0, 1),), pools=("fast",)), BufferInfo("c", 4, ((0, 1),))),
        (Pool("fast", limit=10), Pool("slow")),
    )
    made = plan(apart)
    assert {n: p.pool for n, p in made.places.items()} == {"a": "slow", "b": "fast", "c": "fast"}

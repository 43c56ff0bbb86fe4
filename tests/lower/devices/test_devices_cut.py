"""Fewest copies by minimum cuts, against all assignments (specs/lower.md, "devices")."""

from __future__ import annotations

import random
from itertools import product

import pytest

from assay.lower.devices import cut
from assay.lower.devices.cut import Problem, Wanted


def random_problem(seed: int, labels: int) -> Problem:
    """A few domains, some of them fixed, and values that are wanted in several of them."""
    rng = random.Random(seed)
    domains = range(rng.randint(2, 6))
    allowed = {d: list(range(labels)) if rng.random() < 0.6 else [rng.randrange(labels)] for d in domains}
    known = {100 + i: rng.randrange(labels + 1) for i in range(2)}
    ends = [*domains, *known]
    values = [
        Wanted(rng.randint(0, 2), rng.choice(ends), tuple({rng.choice(ends) for _ in range(rng.randint(1, 3))}))
        for _ in range(rng.randint(1, 8))
    ]
    return Problem(allowed, values, known)


def assignments(problem: Problem) -> list[dict[int, int]]:
    names = list(problem.allowed)
    return [dict(zip(names, found, strict=True)) for found in product(*(problem.allowed[n] for n in names))]


@pytest.mark.row("V9")
@pytest.mark.parametrize("labels", [2, 3, 4])
@pytest.mark.parametrize("seed", range(100))
def test_the_best_of_all_assignments_is_found(seed: int, labels: int) -> None:
    problem = random_problem(seed, labels)
    found = problem.solve(labels)
    all_ = assignments(problem)
    least = min(map(problem.cost, all_))
    assert problem.cost(found) == least
    best = [a for a in all_ if problem.cost(a) == least]
    at_first = max(sum(a[d] == of[0] for d, of in problem.allowed.items()) for a in best)
    assert sum(found[d] == of[0] for d, of in problem.allowed.items()) == at_first


@pytest.mark.row("V9")
@pytest.mark.parametrize("seed", range(50))
def test_where_many_have_a_choice_of_more_labels_it_is_a_local_minimum(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No label can take over any set of domains and make it cheaper."""
    monkeypatch.setattr(cut, "FEW", -1)
    problem = random_problem(seed, 3)
    found = problem.solve(3)
    assert all(found[d] in of for d, of in problem.allowed.items())
    for other in assignments(problem):
        taken = {other[d] for d in found if other[d] != found[d]}
        if len(taken) == 1:
            assert problem.cost(found) <= problem.cost(other)


@pytest.mark.row("V20")
def test_a_long_chain_is_cut_without_a_deep_stack() -> None:
    """Ends on two devices, and 20,000 domains between that may be on either: one copy."""
    count = 20_000
    allowed = {0: [0], count: [1], **{d: [0, 1] for d in range(1, count)}}
    problem = Problem(allowed, [Wanted(1, d, (d + 1,)) for d in range(count)])
    found = problem.solve(2)
    assert problem.cost(found) == 1
    assert sum(of == 0 for of in found.values()) == count  # of all such cuts the one with the most at their first label

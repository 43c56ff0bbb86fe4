"""Single rules of the planners: orders, budgets, bounds and what is searched, what an error names, tables, symbols
placed around what lies by hand (specs/lower.md, "pool")."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from assay.lower.memory import PLANNERS, plan
from assay.lower.memory.csv import parse
from assay.lower.memory.exact import minimum
from assay.lower.memory.exact.minimum import Minimum
from assay.lower.memory.exact.reduction import reduced_problem
from assay.lower.memory.exact.restarts import luby
from assay.lower.memory.exact.search import Budget, Spent
from assay.lower.memory.greedy import greedy_size, orders
from assay.lower.memory.options import Options
from assay.lower.memory.problem import IndexedProblem
from assay.lower.memory.sums import Sums
from assay.lower.memory.symbolic import nominal, plan_symbolic
from assay.semantics.deadline import Deadline
from assay.semantics.errors import Invalid
from assay.semantics.memory import BufferInfo, Place, Plan, Pool, Problem, overlap
from assay.semantics.scalar import Dim, Var, apply, evaluate_dim
from tests.lower.memory.memory_problems import (
    buffers,
    good,
    offsets,
    one_pool,
    optimum,
    random_problem,
    scattered,
    size,
)

every_planner = pytest.mark.parametrize("planner", PLANNERS)
N, M = Var("n"), Var("m")
WORK = Pool("workspace")


def live(name: str, nbytes: int, alignment: int = 1) -> BufferInfo:
    return BufferInfo(name, nbytes, ((0, 2),), alignment)


# --- what an error names ---------------------------------------------------------------------------------------------


@every_planner
@pytest.mark.row("U2")
def test_the_error_names_the_largest_that_does_not_fit_and_the_larger_pool(planner: str) -> None:
    three = (live("middle", 25), live("large", 30), live("small", 5))
    with pytest.raises(Invalid) as wrong:
        plan(Problem(three, (Pool("narrow", limit=10), Pool("wide", limit=20))), planner)
    told, limits = str(wrong.value).split("; ")
    assert "buffer large, 30 bytes" in told and "narrow (10 bytes), wide (20 bytes)" in told
    assert "for wide" in limits and "for narrow" not in limits
    with pytest.raises(Invalid, match="buffer small, 10 bytes, .* a limit of 30 bytes"):
        plan(one_pool(live("large", 20), live("small", 10), limit=25), planner)


def test_a_planner_leaves_what_was_placed_by_hand() -> None:
    problem = one_pool(replace(live("x", 8), pools=("workspace",), offset=16))
    with pytest.raises(Invalid, match="placed by hand at 16 in workspace, but the planner has placed it at 0") as wrong:
        plan(problem, lambda p: Plan({"x": Place("workspace", 0)}, {"workspace": 8}))
    assert wrong.value.label == "memory.C8"
    assert plan(problem, lambda p: Plan({"x": Place("workspace", 16)}, {"workspace": 24})).places["x"].offset == 16


# --- numbers ---------------------------------------------------------------------------------------------------------


@every_planner
@pytest.mark.row("U3")
def test_alignments_of_any_size(planner: str) -> None:
    wide = 1 << 61
    problem = Problem(tuple(live(n, 8, wide) for n in "abcdef"), (Pool("workspace", alignment=wide),))
    made = plan(problem, planner)
    assert good(problem, made) and sorted(offsets(made).values()) == [k * wide for k in range(6)]


@pytest.mark.row("U11")
def test_the_orders_of_first_fit() -> None:
    """By size, area, time, length, end, and load: the most bytes that are live at once while a buffer is."""
    for seed in range(12):
        problem = random_problem(random.Random(seed), 9)
        layout = IndexedProblem(problem)

        def at(b: BufferInfo) -> list[int]:
            return [p for start, stop in b.live for p in range(start, stop)]

        total = {p: sum(layout.nbytes[i] for i, b in enumerate(problem.buffers) if p in at(b)) for p in range(20)}
        keys = []
        for n, b in zip(layout.nbytes, problem.buffers, strict=True):
            length, first, last = len(at(b)), min(at(b), default=0), max(at(b), default=-1) + 1
            load = max((total[p] for p in at(b)), default=0)
            keys.append(
                (
                    (-n, first),
                    (-n * length, first),
                    (first, -n),
                    (-length, -n, first),
                    (-last, -n),
                    (-load, -length, -n),
                )
            )
        want = [sorted(range(len(keys)), key=lambda i, k=k: keys[i][k]) for k in range(6)]  # type: ignore[misc]
        assert list(orders(layout)) == want


# --- the search ------------------------------------------------------------------------------------------------------


def test_luby() -> None:
    """Each power comes as often as half of it, summed: 2^k appears after two runs up to 2^(k-1)."""

    def runs(k: int) -> list[int]:
        return [1] if k == 0 else [*runs(k - 1), *runs(k - 1), 1 << k]

    assert [luby(k + 1) for k in range(63)] == runs(5)


def test_a_budget_is_spent_to_the_last_node() -> None:
    ticks = list[int]()
    budget = Budget(5000, tick=lambda: ticks.append(budget.used))
    for _ in range(5000):
        assert not budget.over
        budget.spend()
    assert budget.over and ticks == [2048, 4096]
    with pytest.raises(Spent):
        budget.spend()
    whole = Budget(10)
    whole.used = 4
    assert (whole.part(3).nodes, whole.part(30).nodes, Budget(None).part(30).nodes) == (3, 6, 30)
    late = Budget(None, deadline=Deadline(0.0))
    assert late.over
    for _ in range(63):  # the clock is not asked at each
        late.spend()
    with pytest.raises(Spent):
        late.spend()


@pytest.mark.row("U11")
@pytest.mark.parametrize("share", [1, 40])
def test_the_least_size_is_found_bit_by_bit(share: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However short each search is, they end at the optimum, and each bound that is told on the way holds."""
    monkeypatch.setattr(minimum, "SHARE", share)
    for seed in range(10):
        problem = random_problem(random.Random(seed), 6, positions=8)
        inside = tuple(b for b in problem.buffers if b.pools == ("workspace",))
        if not inside:
            continue
        part = Problem(inside, problem.pools[:1])
        best, told = optimum(part), list[str]()
        for limit in (None, best, best - 1):
            found = Minimum(IndexedProblem(part), range(len(inside)), limit, tell=told.append).run(Budget(None))
            if limit == best - 1:
                assert found.offsets is None and found.bound >= best
            else:
                assert (found.size, found.bound) == (best, best) and found.offsets is not None
                places = {inside[i].name: Place("workspace", at) for i, at in found.offsets.items()}
                assert good(part, Plan(places, {"workspace": found.size}))
        for words in told:
            parts = words.replace(",", "").split()
            assert int(parts[parts.index("below") + 1]) <= best
        enough = Minimum(IndexedProblem(part), range(len(inside)), None, goal=best + 5).run(Budget(None))
        assert enough.offsets is not None and best <= enough.size <= best + 5 and enough.bound <= best


def test_a_size_below_the_bound_is_not_searched() -> None:
    layout = IndexedProblem(one_pool(live("a", 8), live("b", 8)))
    search, budget = Minimum(layout, range(2), None), Budget(None)
    assert search.attempt(budget, 100, 15) is False and budget.used == 0
    assert search.attempt(budget, 100, 16) is True and budget.used > 0
    assert search.attempt(Budget(1), 1) is None or search.settled


def test_bisection_between_what_is_known() -> None:
    """Where the first search is left open, sizes between are tried: the plan gets smaller within the same effort."""
    problem = one_pool(*buffers(scattered(60, 5)))
    layout, told = IndexedProblem(problem), list[str]()
    search = Minimum(layout, range(60), None, tell=told.append)
    search.offer({i: at for i, at in enumerate(offsets(plan(problem, "greedy-size"))[b.name] for b in problem.buffers)})
    assert search.best is not None
    first = search.best.size
    search._round(Budget(3000), 61)
    assert search.best.size < first
    found = search.result()
    assert found.offsets is not None and search.bound <= found.size
    assert good(
        problem,
        Plan(
            {problem.buffers[i].name: Place("workspace", at) for i, at in found.offsets.items()},
            {"workspace": found.size},
        ),
    )


def test_the_unit_of_a_reduced_problem() -> None:
    whole = reduced_problem(IndexedProblem(one_pool(live("a", 8, 4), live("b", 12, 2))), range(2))
    assert (whole.unit, whole.whole, whole.size.tolist(), whole.aligned) == (4, True, [2, 3], False)
    assert [whole.rounded(c) for c in (7, 8, 11, 12)] == [4, 8, 8, 12]
    odd = reduced_problem(IndexedProblem(one_pool(live("a", 9, 4), live("b", 12, 8))), range(2))
    assert (odd.unit, odd.whole, odd.size.tolist(), odd.align.tolist()) == (4, False, [3, 3], [1, 2])
    assert odd.rounded(11) == 11 and odd.last(20).tolist() == [2, 2] and odd.bound() == 21 and odd.aligned
    nothing = reduced_problem(IndexedProblem(one_pool()), [])
    assert (nothing.unit, nothing.bound(), nothing.sections) == (1, 0, 0)


def test_sections_are_sets_that_conflict_pairwise() -> None:
    """Gaps or not: no section is part of another, each pair in one conflicts, each conflict is in one."""
    for seed in range(20):
        problem = random_problem(random.Random(seed), 9)
        inside = [replace(b, kind="workspace") for b in problem.buffers if b.nbytes and b.live]
        part = one_pool(*(replace(b, pools=(), offset=None, alignment=1) for b in inside))
        r = reduced_problem(IndexedProblem(part), range(len(inside)))
        sections = [{int(i) for i in r.owner[(r.low <= k) & (k < r.high)]} for k in range(r.sections)]
        assert not any(a < b for a in sections for b in sections)
        pairs = {(i, j) for s in sections for i in s for j in s if i < j}
        every = range(len(inside))
        assert pairs == {(i, j) for i in every for j in every if i < j and overlap(inside[i].live, inside[j].live)}
        assert r.load.tolist() == [sum(int(r.size[i]) for i in s) for s in sections]


def test_hill_climbing_tells_of_each_better_plan() -> None:
    told = list[str]()
    made = plan(one_pool(*buffers(scattered(60, 5))), "hill-climb", effort=16000, seed=3, progress=told.append)
    sizes = [int(words.split(": ")[1].split()[0]) for words in told]
    assert sizes == sorted(set(sizes), reverse=True) and sizes[-1] == size(made)


# --- tables ----------------------------------------------------------------------------------------------------------


def test_what_a_table_places_by_hand_lies_in_the_first_pool() -> None:
    table = parse("id,lower,upper,size,offset,pool\na,0,2,8,16,\nb,0,2,8,,\nc,0,2,4,0,second\n")
    pools = (Pool("first"), Pool("second"))
    problem = table.problem(pools)
    assert [b.pools for b in problem.buffers] == [("first",), (), ("second",)]
    assert plan(problem).places["a"] == Place("first", 16)
    with pytest.raises(Invalid, match="wants pool 'second'; the pools are first") as wrong:
        table.problem(pools[:1])
    assert wrong.value.label == "csv.C3" and str(wrong.value.where).endswith(":4")


@pytest.mark.parametrize("gap", ["7-x", "x-9", "7", "-", "7-"])
def test_a_gap_is_two_numbers(gap: str) -> None:
    with pytest.raises(Invalid, match="must be two numbers with a dash") as wrong:
        parse(f"id,lower,upper,size,gaps\na,0,20,8,{gap}\n")
    assert wrong.value.label == "csv.C2"


# --- symbols ---------------------------------------------------------------------------------------------------------


def greedy(problem: Problem) -> Plan:
    return greedy_size(problem, Options())


@pytest.mark.row("U21")
@pytest.mark.parametrize(("most", "offset"), [(64, 0), (65, 96), (104, 96), (105, 232), (None, 232)])
def test_a_symbolic_size_lies_where_its_largest_value_fits_between_what_lies_by_hand(
    most: int | None, offset: int
) -> None:
    def hand(name: str, at: int) -> BufferInfo:
        return BufferInfo(name, 32, ((0, 9),), pools=("workspace",), offset=at)

    problem = Problem((hand("high", 200), hand("low", 64), BufferInfo("a", N, ((0, 2),))), (WORK,), {N: (0, most)})
    found = plan_symbolic(problem, greedy)
    assert {n: p.offset for n, p in found.places.items()} == {"high": 200, "low": 64, "a": offset}


def test_a_size_without_end_by_hand_wants_its_first_pool_without_a_limit() -> None:
    free, tight = Pool("free"), Pool("tight", limit=100)
    hand = BufferInfo("hand", N, ((0, 2),), pools=("free", "tight"), offset=64)
    assert plan_symbolic(Problem((hand,), (free, tight)), greedy).places["hand"] == Place("free", 64)
    with pytest.raises(Invalid, match="within the limit of tight") as wrong:
        plan_symbolic(Problem((replace(hand, pools=("tight", "free")),), (free, tight)), greedy)
    assert wrong.value.label == "memory.C8"


def test_the_values_of_symbols_in_the_plan_in_numbers() -> None:
    problem = Problem((BufferInfo("a", N * M, ((0, 1),)),), (WORK,), {N: (200, None)})
    assert nominal((N, M), problem.bounds) == {N: 200, M: 128} and nominal((N, M), problem.bounds, {M: 5}) == {
        N: 200,
        M: 5,
    }
    assert nominal((N, M), {N: (1, 7), M: (0, None)}) == {N: 7, M: 128}


@pytest.mark.row("U21")
def test_sums_mean_what_they_are_made_of_and_stay_within_their_ranges() -> None:
    """Every operation, at every value of small boxes; divisors that are not positive numbers are left alone."""
    rng = random.Random(0)
    bounds: dict[Var, tuple[int, int | None]] = {N: (0, 4), M: (1, 3)}

    def made(depth: int) -> Dim:
        if not depth:
            return rng.choice([N, M, rng.randrange(-3, 6)])
        op = rng.choice(["add", "sub", "mul", "floordiv", "floormod", "max", "min"])
        by = rng.choice([2, 3, 4, M]) if op.startswith("floor") else made(depth - 1)
        if op == "max":  # of sums of 0 or more
            return apply(op, (0 + N) * rng.randrange(1, 4), M * rng.randrange(1, 4))
        return apply(op, made(depth - 1), by)

    for _ in range(120):
        dim, sums = made(rng.randrange(1, 4)), Sums(bounds)
        total = sums.of(dim)
        low, high = sums.range(total)
        steps = sums.aligned(total, 8)
        for n in range(5):
            for m in range(1, 4):
                at = {N: n, M: m}
                value = evaluate_dim(dim, at)
                assert evaluate_dim(sums.dim(total), at) == value
                assert (low is None or low <= value) and (high is None or value <= high)
                assert evaluate_dim(sums.dim(steps), at) == -(-value // 8) * 8

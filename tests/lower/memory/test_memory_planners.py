"""Every planner of memory, on TVM's own cases and on random ones: good plans, the right errors, the same each time."""

from __future__ import annotations

import random
import time
from dataclasses import replace

import pytest

from assay.lower.memory import PLANNERS, plan
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.memory import BufferInfo, Place, Plan, Pool, Problem, lower_bound
from assay.semantics.scalar import Var
from assay.verify.memory import check_plan
from tests.lower.memory.memory_problems import (
    CHAIN,
    FANOUT,
    FANOUT_TOLD_TWICE,
    INTERVALS,
    MOBILENET,
    bounded,
    buffers,
    from_conflicts,
    good,
    layered,
    offsets,
    one_pool,
    random_problem,
    scattered,
    size,
    speech,
)

every_planner = pytest.mark.parametrize("planner", PLANNERS)


# --- the cases of TVM's tests --------------------------------------------------------------------------------------


@every_planner
@pytest.mark.row("U2")
@pytest.mark.parametrize(
    "ways", [[("a", "b"), ("b", "c"), ("c", "a")], [("a", "b"), ("b", "a"), ("c", "b"), ("a", "c")]]
)
def test_no_room_is_an_error_whichever_side_tells_of_a_conflict(planner: str, ways: list[tuple[str, str]]) -> None:
    problem = from_conflicts(dict.fromkeys("abc", 10), ways, (Pool("only", limit=10),))
    with pytest.raises(
        Invalid, match=r"does not fit: buffer [abc], 10 bytes, .* only \(10 bytes\); a limit of 30"
    ) as raised:
        plan(problem, planner)
    assert raised.value.label == "memory.C7"
    assert ("nothing less" in str(raised.value)) == (planner == "exact")


@every_planner
@pytest.mark.row("U11")
def test_ties_go_by_name(planner: str) -> None:
    """As in TVM, the greater name comes first where only names differ; `exact` takes what the quick ones find."""
    names = [list("abc"), list("cab"), list("bca")]
    if planner not in ("greedy-size", "greedy-conflicts"):
        names = names[:1]
    for order in names * 3:
        problem = from_conflicts(dict.fromkeys(order, 10), [("a", "b"), ("b", "c"), ("c", "a")])
        found = offsets(plan(problem, planner))
        assert sorted(found.values()) == [0, 10, 20]
        if planner.startswith("greedy"):
            assert found == {"c": 0, "b": 10, "a": 20}
        assert found == offsets(plan(problem, planner))


@pytest.mark.row("U11")
@pytest.mark.parametrize(
    ("planner", "chain", "fanout", "told_twice", "slow"),
    [
        ("tokens", 150, 230, 190, 1418528),
        ("greedy-size", 140, 250, 190, 1418528),
        ("greedy-conflicts", 140, 320, 250, 1418528),
        ("first-fit", 140, 210, 190, 1117462),
        ("hill-climb", 140, 210, 190, 1117462),
        ("exact", 140, 210, 190, 1117462),
    ],
)
def test_the_sizes_of_tvms_cases(planner: str, chain: int, fanout: int, told_twice: int, slow: int) -> None:
    for problem, pool, wanted in (
        (CHAIN, "workspace", chain),
        (FANOUT, "workspace", fanout),
        (FANOUT_TOLD_TWICE, "workspace", told_twice),
        (MOBILENET, "slow", slow),
    ):
        made = plan(problem, planner)
        assert good(problem, made)
        assert size(made, pool) == wanted
        if planner == "exact" and pool == "workspace":
            assert made.optimal
    assert size(plan(MOBILENET, planner), "fast") == 200704


@every_planner
@pytest.mark.row("U2", "U11")
@pytest.mark.parametrize("seed", range(3))
def test_a_bounded_pool_with_fallback(planner: str, seed: int) -> None:
    """TVM runs this on hill climbing alone: its greedy planners overlap here."""
    problem = bounded(150, seed)
    made = plan(problem, planner, effort=20_000 if planner != "exact" else 200)
    assert good(problem, made)
    assert check_plan(problem, made).holds
    assert 0 < size(made, "fast") <= 65535 and size(made, "slow") > 0


@pytest.mark.row("U10", "U11")
@pytest.mark.parametrize("rows", [*INTERVALS.values(), speech()], ids=[*INTERVALS, "speech"])
def test_intervals(rows: list[tuple[int, int, int]]) -> None:
    problem = one_pool(*buffers(rows))
    bound = lower_bound(problem.buffers)
    for planner in PLANNERS:
        made = plan(problem, planner)
        assert good(problem, made)
        assert made.bound == bound
        if planner in ("hill-climb", "exact"):
            assert size(made) <= 1.05 * bound
    assert size(plan(problem)) == bound


@every_planner
@pytest.mark.row("U11")
def test_random_intervals(planner: str) -> None:
    for seed in range(5):
        problem = one_pool(*buffers(scattered(seed=seed)))
        made = plan(problem, planner)
        assert good(problem, made)
        assert size(plan(problem, "exact")) <= size(made)


# --- a full pool ---------------------------------------------------------------------------------------------------


@every_planner
@pytest.mark.row("U2", "U11")
def test_a_pool_that_is_full_stays_so(planner: str) -> None:
    """N conflicts with A and B, which fill the pool. TVM's greedy planners put it on top of B."""
    sizes, pairs = {"A": 50, "B": 45, "N": 20}, [("A", "B"), ("N", "B"), ("N", "A")]
    with pytest.raises(Invalid, match="does not fit") as raised:
        plan(from_conflicts(sizes, pairs, (Pool("fast", limit=100),)), planner)
    assert "115 bytes for fast" in str(raised.value)
    problem = from_conflicts(sizes, pairs, (Pool("fast", limit=100), Pool("slow")))
    made = plan(problem, planner)
    assert good(problem, made)
    assert {n for n, p in made.places.items() if p.pool == "slow"} == {"N"}


@every_planner
@pytest.mark.row("U2")
def test_the_limit_that_an_error_names_is_enough(planner: str) -> None:
    found = 0
    for seed in range(8):
        rng = random.Random(seed)
        problem = random_problem(rng, 8, limits=True)
        pools = tuple(replace(p, limit=rng.randrange(10, 40)) if p.name == "workspace" else p for p in problem.pools)
        problem = replace(problem, pools=pools)
        try:
            made = plan(problem, planner, effort=2000)
        except Invalid as wrong:
            if wrong.label != "memory.C7":
                continue
            found += 1
            limits = {p.name: p.limit for p in problem.pools}
            for part in str(wrong).split("; ")[1].split(" and "):
                words = part.split()
                if words[0] in ("a", "limit"):
                    limits[words[words.index("for") + 1]] = int(words[words.index("of") + 1])
            wider = replace(problem, pools=tuple(replace(p, limit=limits[p.name]) for p in problem.pools))
            made, problem = plan(wider, planner, effort=2000), wider
        assert good(problem, made)
    assert found


@every_planner
@pytest.mark.row("U2")
def test_a_buffer_larger_than_a_pool_goes_to_the_next(planner: str) -> None:
    problem = Problem(
        (BufferInfo("large", 100, ((0, 1),)), BufferInfo("small", 10, ((0, 1),))), (Pool("a", limit=50), Pool("b"))
    )
    made = plan(problem, planner)
    assert {n: p.pool for n, p in made.places.items()} == {"large": "b", "small": "a"}
    assert dict(made.sizes) == {"a": 10, "b": 100}


@every_planner
@pytest.mark.row("U2")
def test_a_buffer_can_want_its_own_order_of_pools(planner: str) -> None:
    made = plan(
        Problem(
            (BufferInfo("x", 8, ((0, 1),), pools=("b", "a")), BufferInfo("y", 8, ((0, 1),), pools=("b", "a"))),
            (Pool("a"), Pool("b", limit=8)),
        ),
        planner,
    )
    assert sorted(p.pool for p in made.places.values()) == ["a", "b"]


# --- rules of problems ---------------------------------------------------------------------------------------------

X = BufferInfo("x", 8, ((0, 2),))
LIVE = ((0, 2),)


@pytest.mark.parametrize(
    ("buffers", "pools", "label", "words"),
    [
        ((X, X), (Pool("a"),), "memory.C1", "two buffers are called 'x'"),
        ((X,), (Pool("a"), Pool("a")), "memory.C1", "two pools are called 'a'"),
        ((replace(X, pools=("b",)),), (Pool("a"),), "memory.C2", "wants pool b, but the pools are: a"),
        ((X,), (Pool("a", "constant"),), "memory.C2", "no pool can hold buffer x"),
        ((X,), (), "memory.C2", "no pool can hold buffer x"),
        (
            (replace(X, pools=("a",)),),
            (Pool("a", "constant"),),
            "memory.C2",
            "of the kind workspace and cannot lie in pool a",
        ),
        ((replace(X, pools=("a",)),), (Pool("a", read_only=True),), "memory.C2", "is written, but pool a is read-only"),
        ((replace(X, nbytes=-1),), (Pool("a"),), "memory.C3", "has -1 bytes"),
        ((X,), (Pool("a", limit=-1),), "memory.C3", "has the limit -1"),
        ((replace(X, alignment=0),), (Pool("a"),), "memory.C4", "has the alignment 0"),
        ((X,), (Pool("a", alignment=0),), "memory.C4", "has the alignment 0"),
        ((replace(X, alignment=128),), (Pool("a", alignment=64),), "memory.C4", "wants the alignment 128"),
        ((replace(X, live=((2, 2),)),), (Pool("a"),), "memory.C5", r"live in \[2, 2\), which is empty"),
        ((replace(X, live=((0, 2), (1, 3))),), (Pool("a"),), "memory.C5", "increasing order"),
        ((replace(X, live=((0, 2), (2, 3))),), (Pool("a"),), "memory.C5", "do not touch"),
        ((replace(X, offset=4),), (Pool("a"),), "memory.C6", "in which pool"),
        (
            (replace(X, offset=4, pools=("a",), alignment=8),),
            (Pool("a"),),
            "memory.C6",
            "no multiple of its alignment 8",
        ),
        ((replace(X, offset=4, pools=("a",)),), (Pool("a", limit=8),), "memory.C6", r"bytes \[4, 12\) of pool a"),
        ((replace(X, offset=-4, pools=("a",)),), (Pool("a"),), "memory.C6", r"bytes \[-4, 4\)"),
        (
            (replace(X, offset=4, pools=("a",)), BufferInfo("y", 8, ((1, 3),), pools=("a",), offset=0)),
            (Pool("a"),),
            "memory.C6",
            "x and y have been placed by hand, and share byte 4 of pool a",
        ),
    ],
)
@pytest.mark.row("U2", "U3", "U12")
def test_a_problem_that_breaks_a_rule(
    buffers: tuple[BufferInfo, ...], pools: tuple[Pool, ...], label: str, words: str
) -> None:
    for planner in PLANNERS:
        with pytest.raises(Invalid, match=words) as raised:
            plan(Problem(buffers, pools), planner)
        assert raised.value.label == label


def test_sizes_with_symbols_are_not_for_planners() -> None:
    with pytest.raises(Unsupported, match="the size of buffer x is n"):
        plan(one_pool(BufferInfo("x", Var("n"), LIVE)))


def test_an_unknown_planner() -> None:
    with pytest.raises(Invalid, match="there is no planner 'best'; there are tokens, greedy-size, greedy-conflicts"):
        plan(one_pool(X), "best")


# --- a user's own planner ------------------------------------------------------------------------------------------


@pytest.mark.row("U11")
def test_a_planner_is_a_function() -> None:
    def stack(problem: Problem) -> Plan:
        at, places = 0, {}
        for b in problem.buffers:
            assert isinstance(b.nbytes, int)
            places[b.name] = Place("workspace", at)
            at += b.nbytes
        return Plan(places, {"workspace": at}, "stack")

    problem = one_pool(X, replace(X, name="y"))
    made = plan(problem, stack)
    assert (made.planner, size(made)) == ("stack", 16)
    assert good(problem, made)


@pytest.mark.row("U6", "U11")
def test_a_planner_can_weigh_the_figures_of_pools() -> None:
    """What is read most goes where reading is fast: a function that ranks the pools, then plans as another does."""

    def by_bandwidth(problem: Problem) -> Plan:
        def ranked(b: BufferInfo) -> tuple[str, ...]:
            pools = sorted(problem.candidates(b), key=lambda p: (-p.read_bandwidth, p.read_latency))
            return tuple(p.name for p in pools)

        return plan(replace(problem, buffers=tuple(replace(b, pools=ranked(b)) for b in problem.buffers)), "first-fit")

    pools = (
        Pool("flash", read_bandwidth=4),
        Pool("tightly", limit=8, read_bandwidth=16),
        Pool("sram", read_bandwidth=16, read_latency=2),
    )
    problem = Problem((X, replace(X, name="y")), pools)
    assert {p.pool for p in plan(problem, "first-fit").places.values()} == {"flash"}
    assert {p.pool for p in plan(problem, by_bandwidth).places.values()} == {"tightly", "sram"}


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (Plan({}, {"workspace": 8}), "has not placed buffer x"),
        (Plan({"x": Place("other", 0)}, {"other": 8}), "in pool other; its pools are workspace"),
        (Plan({"x": Place("workspace", -1)}, {"workspace": 8}), "at -1"),
        (Plan({"x": Place("workspace", 0)}, {}), "no size for pool workspace"),
        (Plan({"x": Place("workspace", 0), "z": Place("workspace", 0)}, {"workspace": 8}), "z, which is no buffer"),
    ],
)
def test_an_incomplete_answer_is_refused(made: Plan, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        plan(one_pool(X), lambda problem: made)


# --- all sorts -----------------------------------------------------------------------------------------------------


@every_planner
@pytest.mark.row("U2", "U3", "U11", "U12")
@pytest.mark.parametrize("limits", [False, True])
def test_random_problems(planner: str, limits: bool) -> None:
    for seed in range(16):
        problem = random_problem(random.Random(seed), 2 + seed % 14, limits=limits)
        options = {"seed": seed, "effort": 1000}
        made = plan(problem, planner, **options)
        assert good(problem, made), problem
        assert check_plan(problem, made).holds
        assert made == plan(problem, planner, **options), "the same options, the same plan"
        first = next((p.name for p in problem.pools if size(made, p.name)), "workspace")
        inside = [b for b in problem.buffers if made.places[b.name].pool == first]
        assert lower_bound(inside) <= made.bound <= size(made, first)
        assert made.optimal == (made.bound == size(made, first))


@every_planner
def test_buffers_placed_by_hand(planner: str) -> None:
    """TFLM's offline plan: some have places, the others go around them, and below them where they fit."""
    fixed = BufferInfo("fixed", 16, ((0, 4),), 4, pools=("workspace",), offset=32)
    made = plan(one_pool(fixed, BufferInfo("a", 32, ((0, 2),)), BufferInfo("b", 20, ((1, 3),)), limit=100), planner)
    assert made.places["fixed"].offset == 32
    assert size(made) == 68
    only = plan(one_pool(fixed), planner)
    assert (only.bound, only.optimal, size(only)) == (48, True, 48)


@every_planner
def test_nothing_and_next_to_nothing(planner: str) -> None:
    empty = plan(one_pool(), planner)
    assert (dict(empty.places), dict(empty.sizes), empty.optimal) == ({}, {"workspace": 0}, True)
    none = plan(one_pool(BufferInfo("x", 0, LIVE, 8), BufferInfo("y", 0, LIVE)), planner)
    assert dict(none.sizes) == {"workspace": 0} and none.optimal
    never = plan(one_pool(BufferInfo("x", 24, ()), BufferInfo("y", 8, LIVE)), planner)
    assert dict(never.sizes) == {"workspace": 24} and never.optimal


@every_planner
def test_integers_of_any_size(planner: str) -> None:
    unit = 10**30
    problem = one_pool(
        *(BufferInfo(f"b{i}", n * unit + i, ((i, i + 2),), 8) for i, n in enumerate((3, 5, 4, 2, 6))),
        BufferInfo("whole", unit, ((0, 2), (4, 6))),
    )
    made = plan(problem, planner)
    assert good(problem, made)
    assert 9 * unit <= made.bound <= size(made) < 20 * unit
    if planner == "exact":
        assert made.optimal


@pytest.mark.row("U11")
def test_hill_climbing_gives_the_best_it_met() -> None:
    problem = one_pool(*buffers(scattered(60, 5)))
    start, met = size(plan(problem, "first-fit")), list[int]()
    for effort in (0, 1000, 4000, 16000):
        met.append(size(plan(problem, "hill-climb", effort=effort, seed=3)))
    assert met == sorted(met, reverse=True)
    assert met[0] == start > met[-1]


@every_planner
@pytest.mark.row("U11")
def test_thousands_of_buffers(planner: str) -> None:
    problem = layered(random.Random(1), 2_000 if planner in ("hill-climb", "exact") else 5_000)
    begin = time.process_time()
    made = plan(problem, planner, effort=10_000 if planner == "hill-climb" else 20)
    assert time.process_time() - begin < 30
    assert made.bound == lower_bound(problem.buffers) <= size(made) < 3 * made.bound
    assert check_sections(problem, made)


def check_sections(problem: Problem, made: Plan) -> bool:
    """Whether no two share a byte, position by position: neighbours by offset are apart."""
    at = offsets(made)
    starts: dict[int, list[BufferInfo]] = {}
    for b in problem.buffers:
        starts.setdefault(b.live[0][0], []).append(b)
    live: list[BufferInfo] = []
    for position in sorted(starts):
        live = [b for b in live if b.live[0][1] > position] + starts[position]
        live.sort(key=lambda b: at[b.name])
        for a, b in zip(live, live[1:], strict=False):
            assert isinstance(a.nbytes, int)
            if at[a.name] + a.nbytes > at[b.name]:
                return False
    return True

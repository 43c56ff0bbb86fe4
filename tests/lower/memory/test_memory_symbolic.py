"""The planner of symbolic sizes: offsets that are maxima of sums, short, and good at every value."""

from __future__ import annotations

import random

import pytest

from assay.lower.memory.classes import plan_by_class
from assay.lower.memory.greedy import first_fit, greedy_size
from assay.lower.memory.options import Options
from assay.lower.memory.orders import MOST_PARTS, Measure, text_length
from assay.lower.memory.sums import Sums
from assay.lower.memory.symbolic import largest, plan_symbolic
from assay.semantics.errors import Invalid
from assay.semantics.memory import BufferInfo, Plan, Pool, Problem, lower_bound
from assay.semantics.scalar import Dim, Expr, Var, apply, evaluate_dim, show
from assay.semantics.walk import post_order
from assay.verify.memory import check_plan, prove_plan

pytestmark = pytest.mark.row("U21")

N, M = Var("n"), Var("m")
WORK = Pool("workspace")


def greedy(problem: Problem) -> Plan:
    return greedy_size(problem, Options())


def planned(
    *buffers: BufferInfo, by_bound: bool = False, pools: tuple[Pool, ...] = (WORK,), **bounds: tuple[int, int | None]
) -> Plan:
    named = {"n": N, "m": M}
    return plan_symbolic(Problem(buffers, pools, {named[k]: v for k, v in bounds.items()}), greedy, by_bound=by_bound)


def text(dim: Dim) -> str:
    return show(dim)


def test_two_that_are_live_together_are_stacked() -> None:
    found = planned(BufferInfo("a", 4 * N, ((0, 2),), 64), BufferInfo("b", 8, ((1, 3),), 64))
    assert text(found.places["a"].offset) == "0"
    assert text(found.places["b"].offset) == "((((n * 4) + 63) // 64) * 64)"
    assert text(found.sizes["workspace"]) == "(((((n * 4) + 63) // 64) * 64) + 8)"


def test_equal_sizes_share_and_smaller_ones_hide() -> None:
    """What is written differently is one part, and what is never larger is dropped from the maximum."""
    found = planned(
        BufferInfo("a", (4 * N) * M, ((0, 1),)),
        BufferInfo("b", N * (M * 4), ((1, 2),)),
        BufferInfo("c", 2 * N * M, ((2, 3),)),
        BufferInfo("d", 7, ((0, 3),)),
        n=(1, None),
        m=(1, None),
    )
    assert [text(found.places[x].offset) for x in "abc"] == ["0", "0", "0"]
    assert text(found.places["d"].offset) == "((n * m) * 4)"


def test_sizes_of_which_neither_is_larger_make_a_maximum() -> None:
    found = planned(BufferInfo("a", N, ((0, 1),)), BufferInfo("b", M, ((1, 2),)), BufferInfo("c", 7, ((0, 2),)))
    assert text(found.places["c"].offset) in ("T.max(n, m)", "T.max(m, n)")


def test_a_bound_makes_numbers_of_it() -> None:
    a, b = BufferInfo("a", 4 * N, ((0, 2),)), BufferInfo("b", 8, ((1, 3),))
    assert planned(a, b, n=(1, 16)).places["b"].offset is not None
    assert isinstance(planned(a, b, n=(1, 16)).places["b"].offset, Expr)
    found = planned(a, b, n=(1, 16), by_bound=True)
    assert (found.places["b"].offset, found.sizes["workspace"]) == (64, 72)


def test_a_least_value_alone_is_no_size() -> None:
    """A planner once took the lower bound of a symbol for its value: too little memory for every larger one."""
    for by_bound in (False, True):
        found = planned(
            BufferInfo("a", 4 * N, ((0, 2),)), BufferInfo("b", 8, ((1, 3),)), by_bound=by_bound, n=(16, None)
        )
        assert text(found.places["b"].offset) == "(n * 4)"


def test_what_is_small_without_a_bound_is_an_expression() -> None:
    """Its greatest size would be kept at every n, where another buffer may have no bytes at all."""
    few = apply("min", N, 32)
    found = planned(BufferInfo("a", 4 * few, ((0, 2),)), BufferInfo("b", 4 * N, ((0, 2),)), by_bound=True)
    size = found.sizes["workspace"]
    assert [evaluate_dim(size, {N: n}) for n in (0, 32, 100)] == [0, 256, 528]


def test_what_has_no_bytes_in_numbers_lies_below() -> None:
    """At n = 0 the place of b is open; stacked above a, it would lift c, which is not live with a."""
    buffers = (
        BufferInfo("a", 4096, ((0, 2),)),
        BufferInfo("b", 4 * N, ((0, 4),)),
        BufferInfo("c", 4096, ((2, 4),)),
    )
    found = plan_symbolic(Problem(buffers, (WORK,), {N: (0, None)}), greedy, {N: 0})
    assert text(found.places["b"].offset) == "0"
    assert [evaluate_dim(found.sizes["workspace"], {N: n}) for n in (0, 5)] == [4096, 4116]


def test_partly_known() -> None:
    """One symbol has a bound and the other has none: only what depends on the one alone becomes a number."""
    found = planned(
        BufferInfo("a", 4 * N, ((0, 3),)), BufferInfo("b", 2 * M, ((0, 3),)), BufferInfo("c", 1, ((0, 3),)),
        by_bound=True, n=(0, 100), m=(0, None),
    )  # fmt: skip
    assert found.places["a"].offset == 0 and found.places["b"].offset == 400
    assert text(found.places["c"].offset) == "((m * 2) + 400)"


@pytest.mark.parametrize(
    ("size", "most"),
    [
        (4 * N, 36),
        (N * (10 - N), 25),  # neither end is the largest
        (M - N, 5),
        (apply("max", N, 2 * M), 10),
        ((N + 3) // 4, 3),
        (apply("min", N, M), 5),
        (17, 17),
    ],
)
def test_the_largest_size(size: Dim, most: int) -> None:
    bounds: dict[Var, tuple[int, int | None]] = {N: (0, 9), M: (0, 5)}
    given = Problem((), (WORK,), bounds)
    assert largest(size, given, Sums(bounds)) == most


def test_the_largest_size_of_a_wide_box_is_never_too_small() -> None:
    bounds: dict[Var, tuple[int, int | None]] = {N: (1, 10_000), M: (0, 10_000)}
    given = Problem((), (WORK,), bounds)
    for size in (N * M - N, N * (10_000 - M), (N * M) // 7 - M):
        found = largest(size, given, Sums(bounds))
        for n in (1, 5000, 10_000):
            for m in (0, 5000, 10_000):
                assert found is not None and found >= evaluate_dim(size, {N: n, M: m})
    assert largest(N * M, Problem((), (WORK,), {N: (0, 4)}), Sums({N: (0, 4)})) is None


def test_limits() -> None:
    fast = Pool("fast", limit=100)
    a = BufferInfo("a", N, ((0, 1),))
    assert planned(a, pools=(fast, WORK)).places["a"].pool == "workspace"
    assert planned(a, pools=(fast, WORK), n=(0, 99)).places["a"].pool == "fast"
    with pytest.raises(Invalid, match="no greatest value is known of n, so nothing shows that it stays") as caught:
        planned(a, pools=(fast,), n=(1, None))
    assert caught.value.label == "memory.C8"


def test_placed_by_hand() -> None:
    """What may reach a buffer that was placed by hand lies above it; what cannot may stay below."""
    hand = BufferInfo("hand", 32, ((0, 9),), pools=("workspace",), offset=64)
    found = planned(hand, BufferInfo("a", N, ((0, 2),)), BufferInfo("b", M, ((4, 6),)), m=(0, 60))
    assert found.places["hand"].offset == 64
    assert (found.places["a"].offset, found.places["b"].offset) == (96, 0)


def numbers(problem: Problem, found: Plan, at: dict[Var, int]) -> list[tuple[BufferInfo, int, int]]:
    return [(b, evaluate_dim(found.places[b.name].offset, at), evaluate_dim(b.nbytes, at)) for b in problem.buffers]


def layers(count: int, symbols: int, seed: int) -> Problem:
    """Like activations: lives of a few positions, sizes of few kinds."""
    rng = random.Random(seed)
    names = [Var(f"n{i}") for i in range(symbols)]
    sizes: list[Dim] = [4 * rng.choice(names) * rng.choice((*names, 1, 8)) * rng.randrange(1, 9) for _ in range(30)]
    buffers = []
    for i in range(count):
        start = rng.randrange(2 * count)
        buffers.append(
            BufferInfo(f"b{i}", rng.choice(sizes), ((start, start + rng.randrange(1, 12)),), rng.choice((1, 64)))
        )
    return Problem(tuple(buffers), (WORK,), {v: (1, None) for v in names})


@pytest.mark.parametrize("seed", range(4))
def test_random_plans_are_good_at_every_value(seed: int) -> None:
    given = layers(40, 3, seed)
    found = plan_symbolic(given, lambda p: first_fit(p, Options()))
    for scale in (1, 2, 63, 1000):
        at = {v: scale + i * (scale % 7) for i, v in enumerate(given.bounds)}
        placed = numbers(given, found, at)
        size = evaluate_dim(found.sizes["workspace"], at)
        assert all(o >= 0 and o % b.alignment == 0 and o + n <= size for b, o, n in placed)
        for i, (a, low, high) in enumerate(placed):
            for b, other, more in placed[:i]:
                together = a.live[0][0] < b.live[0][1] and b.live[0][0] < a.live[0][1]
                assert not together or low + high <= other or other + more <= low


def test_at_its_own_values_it_needs_no_more_than_the_plan_in_numbers() -> None:
    given = layers(60, 2, 9)
    at = {v: 128 for v in given.bounds}
    found = plan_symbolic(given, greedy, at)
    plain = Problem(
        tuple(BufferInfo(b.name, evaluate_dim(b.nbytes, at), b.live, b.alignment) for b in given.buffers), (WORK,)
    )
    size = evaluate_dim(found.sizes["workspace"], at)
    assert lower_bound(plain.buffers) <= size <= evaluate_dim(greedy(plain).sizes["workspace"], {})


def test_offsets_stay_short() -> None:
    """Shared parts are counted once: a thousand offsets have a few parts each."""
    given = layers(1000, 2, 3)
    found = plan_symbolic(given, greedy)
    nodes = {id(n) for p in found.places.values() if isinstance(p.offset, Expr) for n in post_order(p.offset)}
    assert len(nodes) < 20 * len(given.buffers)


def crossed(count: int) -> tuple[BufferInfo, ...]:
    """Buffers of several sizes of which none is always larger, with lives that cross."""
    rng = random.Random(3)
    sizes = [4 * N * N, 4 * M * M, 8 * N * M, 4 * N, 4 * M, 512]
    lives = [(i, i + rng.choice([1, 2, 3, 5, 9, 30])) for i in range(count)]
    return tuple(BufferInfo(f"b{i}", rng.choice(sizes), (life,), 64) for i, life in enumerate(lives))


def test_a_plan_that_no_one_could_read_becomes_places_for_one_size_each() -> None:
    buffers = crossed(300)
    problem = Problem(buffers, (WORK,), {})
    stacked = plan_symbolic(problem, greedy, {N: 128, M: 128})
    found = plan_symbolic(problem, greedy)
    assert (
        text_length(stacked) > MOST_PARTS > 300 > text_length(found)
        and found.planner == "symbolic, a place for each size"
    )
    for n, m in ((0, 0), (1, 900), (900, 1), (37, 41)):
        assert check_plan(problem, found, {N: n, M: m}).holds, (n, m)
    assert prove_plan(problem, found).evidence.holds


def test_gaps_in_lives_are_no_free_place_for_what_lives_there() -> None:
    """Of one size: one that comes back, one that fits into its gap, and one that does not."""
    lives = {"back": ((0, 2), (6, 8)), "inside": ((2, 6),), "across": ((3, 7),), "after": ((8, 9),), "never": ()}
    buffers = tuple(BufferInfo(n, 4 * N, life, 64) for n, life in lives.items())
    problem = Problem(buffers, (WORK,), {})
    sums = Sums({})
    size = {b.name: sums.of(b.nbytes) for b in buffers}
    found = plan_by_class(problem, sums, size, plan_symbolic(problem, greedy))
    assert check_plan(problem, found, {N: 100}).holds
    assert evaluate_dim(found.sizes["workspace"], {N: 16}) == 2 * 64
    assert found.places["back"] == found.places["inside"] == found.places["after"] != found.places["across"]


def test_an_order_that_is_bad_at_some_sizes_gives_way_to_another() -> None:
    """Planned at one point alone, some sizes take far more than live at once; the least bad of several orders is
    taken."""
    problem = Problem(crossed(24), (WORK,), {})
    measure = Measure.of([N, M], problem)
    alone, found = plan_symbolic(problem, greedy, {N: 128, M: 128}), plan_symbolic(problem, greedy)
    assert measure.worst(found) < measure.worst(alone)
    assert prove_plan(problem, found).evidence.holds

"""Memory plans with symbolic sizes: proved for all values, or refuted at values at which the definition agrees."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from itertools import combinations

import pytest

from assay.lower.memory.greedy import greedy_size
from assay.lower.memory.options import Options
from assay.lower.memory.symbolic import plan_symbolic
from assay.semantics.errors import Trap
from assay.semantics.integers.polynomials import value
from assay.semantics.memory import BufferInfo, Place, Plan, Pool, Problem
from assay.semantics.scalar import Dim, Var, apply, choice, evaluate_dim, select
from assay.verify.memory import Proof, available, check_plan, prove_plan, recheck_text, second_opinion
from assay.verify.memory.derive import derive
from assay.verify.memory.forms import Forms
from assay.verify.memory.symbolic import live_pairs
from tests.verify.memory.memory_plans import WORK, M, N, most, plan, problem, random_symbolic, up

pytestmark = pytest.mark.row("U21")

FAR = {N: 77, M: 1001}


def two(a: Dim, b: Dim, alignment: int = 1, **bounds: tuple[int, int | None]) -> Problem:
    """Two buffers that are live together."""
    buffers = BufferInfo("a", a, ((0, 2),), alignment, producer="conv"), BufferInfo("b", b, ((1, 3),), alignment)
    return problem(*buffers, **bounds)


def refuted_at(given: Problem, found: Plan, claim: str) -> dict[str, int]:
    """The values of a refutation, at which the definition finds the same claim broken."""
    evidence = prove_plan(given, found).evidence
    assert not evidence.holds and evidence.data["claim"] == claim, evidence
    dims: dict[str, int] = evidence.data["dims"]
    assert not check_plan(given, found, {v: dims[v.name] for v in (N, M) if v.name in dims}).holds
    return dims


# --- what holds
# ----------------------------------------------------------------------------------------------------------


GOOD: dict[str, tuple[Problem, Plan]] = {
    "linear": (two(4 * N, 4 * M), plan(4 * N + 4 * M, a=0, b=4 * N)),
    "product": (two(4 * N * M, 8 * M, 64), plan(up(4 * N * M) + 8 * M, a=0, b=up(4 * M * N))),
    "products in another order": (two((N * M) * 4, M), plan(M * (4 * N) + M, a=0, b=N * (M * 4))),
    "larger than needed": (two(N * M, M, n=(1, None)), plan(2 * N * M, a=0, b=N * M)),
    "bounded": (two(N, M, n=(0, 10), m=(0, 10)), plan(20, a=0, b=10)),
    "bounded product": (two(N * M, 5, n=(1, 10), m=(2, 10)), plan(105, a=0, b=100)),
    "maximum": (
        problem(BufferInfo("a", N, ((0, 2),)), BufferInfo("c", M, ((2, 4),)), BufferInfo("b", 3, ((0, 4),))),
        plan(most(N, M) + 3, a=0, c=0, b=most(N, M)),
    ),
    "minimum": (two(apply("min", N, M), 8), plan(N + 8, a=0, b=N)),
    "order depends on the symbols": (two(N, M), plan(N + M, a=select(N < M, 0, M), b=select(N < M, N, 0))),
    "lazily": (two(N, M), plan(N + M, a=choice(N < M, 0, M), b=choice(N < M, N, 0))),
    "quotients": (two(N // 2, (N + 1) // 2), plan(N, a=0, b=N // 2)),
    "remainder": (two(N % 8, 8), plan(16, a=0, b=8)),
    "divided by a symbol": (two(N // M, 4, m=(1, None)), plan(N + 4, a=0, b=N)),
    "shift": (two(apply("shl", N, 2), 4), plan(4 * N + 4, a=0, b=4 * N)),
    "convolution": (two(((N - 3) // 2 + 1) * 4, 4, n=(3, None)), plan(4 * N + 4, a=0, b=4 * N)),
    "rounded together": (two(up(N), up(M)), plan(up(N + M) + 64, a=0, b=up(N))),
    "nothing at all": (two(0, M), plan(M, a=0, b=0)),
    "a part is never negative": (two(apply("abs", N - M), 4), plan(N + M + 4, a=0, b=N + M)),
}


@pytest.mark.parametrize("name", GOOD)
def test_what_holds_for_all_values_is_proved(name: str) -> None:
    given, found = GOOD[name]
    proof = prove_plan(given, found)
    assert proof.evidence.holds, proof.evidence
    assert all("(check-sat)" in text for text in proof.queries.values())
    for n in range(4):
        for m in range(1, 4):
            at = {v: max(k, given.bounds.get(v, (0, None))[0]) for v, k in ((N, n), (M, m))}
            assert check_plan(given, found, at).holds


# --- what does not
# -------------------------------------------------------------------------------------------------------


BAD: dict[str, tuple[Problem, Plan, str, dict[str, int]]] = {
    "one element short": (two(4 * N, 4 * M), plan(4 * N + 4 * M, a=0, b=4 * N - 4), "inside", {"n": 0, "m": 0}),
    "shares": (two(4 * N, 4, n=(1, None)), plan(4 * N, a=0, b=4 * N - 4), "apart", {"n": 1}),
    "other symbol": (two(4 * N, 4 * M), plan(4 * N + 4 * M, a=0, b=4 * M), "inside", {"n": 0, "m": 1}),
    "only from 1000 on": (two(N, 8), plan(N + 2000, a=0, b=most(999, N - 1)), "apart", {"n": 1000}),
    "split rounding": (
        two(up(4 * N * M), up(4 * N)), plan(up(4 * N * (M + 1)), a=0, b=up(4 * N * M)), "inside", {"n": 1, "m": 1}
    ),
    "misaligned": (two(4 * N, 8, 16), plan(4 * N + 8, a=0, b=4 * N), "aligned", {"n": 1}),
    "past the end": (two(4 * N, 8), plan(4 * N + 7, a=0, b=4 * N), "inside", {"n": 0}),
    "negative size": (two(4 * N - 8, 8), plan(4 * N + 8, a=0, b=4 * N), "size", {"n": 0}),
    "above its bound": (two(N, 8, n=(0, 64)), plan(71, a=0, b=63), "apart", {"n": 64}),
    "lower bound as size": (two(4 * N, 8, n=(4, None)), plan(24, a=0, b=16), "apart", {"n": 5}),
    "product": (two(N * M, 8), plan(N * M + N + M + 8, a=0, b=N + M), "apart", {"n": 2, "m": 3}),
    "order depends on the symbols": (
        two(N, M), plan(N + M, a=select(N < M, 0, M), b=select(N <= M, N, 0)), "apart", {"n": 1, "m": 1}
    ),
    "limit": (
        replace(two(N, 8), pools=(replace(WORK, limit=100),)), plan(N + 8, a=0, b=N), "limit", {"n": 93}
    ),
    "by hand": (
        problem(BufferInfo("a", N, ((0, 2),), pools=("workspace",), offset=64)), plan(64 + 2 * N, a=N), "by hand",
            {"n": 0}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_does_not_hold_is_refuted_at_small_values(name: str) -> None:
    given, found, claim, dims = BAD[name]
    assert refuted_at(given, found, claim) == dims


def test_a_refutation_says_all_of_it() -> None:
    evidence = prove_plan(*BAD["only from 1000 on"][:2]).evidence
    assert (
        evidence.detail
        == "for n = 1000: buffers a (conv) and b share byte 999 of pool workspace while both are live, at position 1"
    )
    assert (evidence.data["bytes"], evidence.data["positions"]) == ((999, 1000), (1, 2))


def test_far_counterexamples_are_found_by_z3() -> None:
    """No sample is near: the solver must find the place."""
    strange = select(apply("eq", N, 54_321), 1, 0)
    given = two(N + strange, 8)
    assert refuted_at(given, plan(N + 16, a=0, b=N), "apart") == {"n": 54_321}


def test_what_is_not_decided_is_not_proved() -> None:
    """Fermat, with cubes: true, and nothing that a solver can show."""
    k, a, b, c = Var("k"), Var("a"), Var("b"), Var("c")
    strange = select(apply("eq", a * a * a + b * b * b, c * c * c), k, 0)
    given = Problem(two(strange, 8).buffers, (WORK,), {v: (1, None) for v in (k, a, b, c)})
    evidence = prove_plan(given, plan(8 + k, a=0, b=0)).evidence
    assert not evidence.holds


def test_empty_bounds_are_refused() -> None:
    assert "no value of n lies in 5 to 4" in prove_plan(two(N, 8, n=(5, 4)), plan(N + 8, a=0, b=N)).evidence.detail


# --- int64
# ---------------------------------------------------------------------------------------------------------------


def test_overflow_within_bounds_is_refuted() -> None:
    top = 1 << 40
    given = two(N * M, 8, n=(0, top), m=(0, top))
    evidence = prove_plan(given, plan(N * M + 8, a=0, b=N * M)).evidence
    assert evidence.data["claim"] == "overflow" and evidence.data["dims"] == {"n": top, "m": top}
    fits = two(N * M, 8, n=(0, 1 << 31), m=(0, 1 << 31))
    proof = prove_plan(fits, plan(N * M + 8, a=0, b=N * M))
    assert proof.evidence.holds and proof.evidence.data["int64"] == "int64 suffices" and "overflow" in proof.queries


def test_without_bounds_the_last_good_value_is_stated() -> None:
    evidence = prove_plan(two(4 * N, 8), plan(4 * N + 8, a=0, b=4 * N)).evidence
    last = ((1 << 63) - 1 - 8) // 4
    assert evidence.data["int64"] == f"int64 suffices while n is at most {last}"
    assert evaluate_dim(4 * N + 8, {N: last}) > 0 > evaluate_dim(4 * N + 8, {N: last + 1})


def test_a_step_in_between_may_overflow() -> None:
    """The result is small, and so is the end: what is computed on the way is not."""
    given = two((N * N * N) // (1 << 62), 8, n=(0, 1 << 22))
    evidence = prove_plan(given, plan(64, a=0, b=32)).evidence
    assert not evidence.holds and evidence.data["claim"] == "overflow"


# --- random plans
# ----------------------------------------------------------------------------------------------------------


def planned(given: Problem, *, by_bound: bool = False) -> Plan:
    return plan_symbolic(given, lambda p: greedy_size(p, Options()), by_bound=by_bound)


def test_random_plans_are_proved_and_hold() -> None:
    rng = random.Random(11)
    for i in range(13):
        given = random_symbolic(rng, rng.randrange(2, 14), bounded=i % 3 == 0)
        found = planned(given, by_bound=i % 6 == 0)
        assert prove_plan(given, found).evidence.holds
        for at in ({N: 1, M: 0}, {N: 40, M: 33}, {N: 2, M: 40}):
            assert check_plan(given, found, at).holds


def test_a_number_off_anywhere_is_refuted_or_harmless() -> None:
    """An offset, or the pool, less by one at a random place: refuted, and the values are right; or good for all."""
    rng = random.Random(12)
    wrong = 0
    for _ in range(25):
        given = random_symbolic(rng, rng.randrange(3, 12))
        found = planned(given)
        name = rng.choice(given.buffers).name
        at = found.places[name]
        worse = rng.choice(
            (
                replace(found, places={**found.places, name: Place(at.pool, at.offset - 1)}),
                replace(found, sizes={"workspace": found.sizes["workspace"] - 1}),
            )
        )
        evidence = prove_plan(given, worse).evidence
        here = [check_plan(given, worse, {N: n, M: m}).holds for n in (1, 2, 7, 40) for m in (0, 1, 2, 9, 65)]
        if not all(here):
            assert not evidence.holds
        if not evidence.holds:
            wrong += 1
            dims = evidence.data["dims"]
            point = {v: dims.get(v.name, 1) for v in (N, M)}
            assert not check_plan(given, worse, point).holds
    assert wrong > 20


def test_a_term_left_out_of_a_maximum_is_refuted() -> None:
    """The planner's own kind of fault: one of several buffers below is forgotten."""
    lower = [BufferInfo(f"l{i}", size, ((2 * i, 2 * i + 1),)) for i, size in enumerate((N, M, N * M, 5))]
    above = BufferInfo("above", 4, ((0, 9),))
    given = problem(*lower, above)
    ends: list[Dim] = [b.nbytes for b in lower]
    zero: dict[str, Dim] = {b.name: 0 for b in lower}
    assert prove_plan(given, plan(most(*ends) + 4, **zero, above=most(*ends))).evidence.holds
    for out in range(4):
        rest = most(*ends[:out], *ends[out + 1 :])
        evidence = prove_plan(given, plan(most(*ends) + 4, **zero, above=rest)).evidence
        assert not evidence.holds and evidence.data["buffers"] == (f"l{out}", "above")


def test_many_buffers_need_no_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the size of small problems neighbours are enough, and order that depends on symbols still is decided."""
    monkeypatch.setattr("assay.verify.memory.symbolic.SMALL", 1)
    assert prove_plan(*GOOD["order depends on the symbols"]).evidence.holds
    rng = random.Random(13)
    for _ in range(10):
        given = random_symbolic(rng, 12)
        assert prove_plan(given, planned(given)).evidence.holds
    for name in ("order depends on the symbols", "product", "above its bound"):
        assert refuted_at(*BAD[name][:3]) == BAD[name][3]


# --- parts
# ---------------------------------------------------------------------------------------------------------------


def random_dim(rng: random.Random, depth: int) -> Dim:
    if depth == 0 or rng.random() < 0.15:
        return rng.choice((N, M, rng.randrange(-3, 9)))
    a, b = random_dim(rng, depth - 1), random_dim(rng, depth - 1)
    op = rng.choice(("add", "sub", "mul", "max", "min", "floordiv", "floormod", "truncdiv", "abs", "select", "shl"))
    match op:
        case "floordiv" | "floormod" | "truncdiv":
            return apply(op, a, rng.choice((2, 3, 8, M + 1, -2)))
        case "abs":
            return apply(op, a)
        case "select":
            return select(apply("lt", a, b), a, b)
        case "shl":
            return apply(op, a, 2)
        case _:
            return apply(op, a, b)


def test_forms_facts_and_ranges_are_true() -> None:
    """At random values: a form is worth what its expression is, and whatever is called a fact is 0 or more."""
    rng = random.Random(14)
    checked = 0
    for _ in range(300):
        bounds = rng.choice(({}, {N: (1, None)}, {N: (2, 9), M: (1, 5)}, {M: (3, 3)}, {N: (-4, 9), M: (0, 2)}))
        dim = random_dim(rng, 3)
        forms = Forms(bounds)
        found = forms.of(dim)
        facts = [*forms.facts([found]), *(f for g in [found] for f in derive(g, forms, forms.ranges) or ())]
        either = [*forms.either([found])]
        for _ in range(6):
            at = {}
            for v in (N, M):
                low, high = bounds.get(v, (0, None))
                at[v] = rng.randrange(low, (30 if high is None else high) + 1)
            try:
                values = forms.values(at)
                expected = evaluate_dim(dim, at)
            except Trap:
                continue
            assert value(found, values) == expected
            assert all(value(f, values) >= 0 for f in facts)
            assert all(0 in (value(a, values), value(b, values)) for a, b in either)
            for x, (low, high) in zip(values, forms.ranges, strict=True):
                assert (low is None or low <= x) and (high is None or x <= high)
            checked += 1
    assert checked > 1000


def test_pairs_are_all_pairs() -> None:
    rng = random.Random(15)
    for _ in range(50):
        buffers = random_symbolic(rng, 8).buffers
        expected = {
            (a.name, b.name)
            for a, b in combinations(buffers, 2)
            if any(max(s, t) < min(e, f) for s, e in a.live for t, f in b.live)
        }
        found = [(a.name, b.name) for a, b in live_pairs(buffers)]
        assert set(found) == expected and len(found) == len(expected)


def test_goals_that_are_left_out_prove_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without neighbours, or without a pair, a clash that no sample shows goes unseen; but lives tell that one is
    missing."""
    strange = select(apply("eq", N, 54_321), 1, 0)
    given, found = two(N + strange, 8), plan(N + 16, a=0, b=N)
    monkeypatch.setattr("assay.verify.memory.symbolic.SMALL", 0)
    assert not prove_plan(given, found).evidence.holds
    monkeypatch.setattr("assay.verify.memory.symbolic.neighbours", lambda boxes: iter(()))
    evidence = prove_plan(given, found).evidence
    assert evidence.holds is None and evidence.exit == 4 and "leave out no two buffers" in evidence.detail
    monkeypatch.undo()
    for module in ("neighbours", "live_pairs"):
        monkeypatch.setattr(f"assay.verify.memory.symbolic.{module}", lambda boxes: iter(()))
    assert prove_plan(given, found).evidence.holds is None


def test_names_of_symbols_do_not_reach_the_text() -> None:
    n = Var("n\n(assert false)\n|")
    for size, good in ((n, True), (n + select(apply("eq", n, 54_321), 1, 0), False)):
        given = Problem(two(size, 8).buffers, (WORK,))
        proof: Proof = prove_plan(given, plan(n + 16, a=0, b=n))
        assert proof.evidence.holds == good
        for text in proof.queries.values():
            assert text.isascii() and "\n(assert false)" not in text
            if available():
                assert recheck_text(text) == "unsat"


@pytest.mark.peer
def test_cvc5_agrees() -> None:
    pytest.importorskip("cvc5", reason="cvc5 is not installed")
    rng = random.Random(16)
    for name in ("linear", "product", "maximum", "quotients", "bounded product"):
        assert second_opinion(prove_plan(*GOOD[name]).queries).holds
    given = random_symbolic(rng, 20)
    opinion = second_opinion(prove_plan(given, planned(given)).queries)
    assert opinion.holds and not opinion.data["undecided"]


def test_several_pools() -> None:
    fast = Pool("fast", limit=256)
    buffers = (
        BufferInfo("a", 64, ((0, 2),), pools=("fast",)),
        BufferInfo("b", 4 * N, ((0, 2),)),
        BufferInfo("c", 4 * M, ((1, 3),), pools=("workspace",)),
    )
    given = Problem(buffers, (fast, WORK))
    places = {"a": Place("fast", 0), "b": Place("workspace", 0), "c": Place("workspace", 4 * N)}
    found = Plan(places, {"fast": 64, "workspace": 4 * N + 4 * M})
    assert prove_plan(given, found).evidence.holds
    worse = replace(found, places={**places, "c": Place("workspace", 4 * M)})
    assert refuted_at(given, worse, "inside") == {"n": 0, "m": 1}


# --- cost
# ------------------------------------------------------------------------------------------------------------------


@pytest.mark.bench
def test_a_thousand_buffers() -> None:
    given = random_symbolic(random.Random(17), 1000)
    spans = [replace(b, live=tuple((s, min(e, s + 9)) for s, e in b.live)) for b in given.buffers]
    given = replace(given, buffers=tuple(spans))
    before = time.process_time()
    found = planned(given)
    middle = time.process_time()
    assert prove_plan(given, found).evidence.holds
    print(f"1,000 symbolic buffers: planned in {middle - before:.2f} s, proved in {time.process_time() - middle:.2f} s")

"""Memory plans in numbers: the definition, z3 beside it, and a planted fault for each claim."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import z3

from assay.semantics.deadline import NEVER, Deadline
from assay.semantics.errors import Crash, Invalid
from assay.semantics.live_positions import union
from assay.semantics.memory import BufferInfo, Place, Plan, Pool, Problem
from assay.verify.memory import CLAIMS, available, check_plan, faults, prove_plan, recheck_text
from assay.verify.memory.chain import Chain, Spell, adjacency
from assay.verify.memory.definition import both_live, overlapping
from assay.verify.memory.query import SMALL, boxes, neighbours, query
from tests.lower.memory.memory_problems import from_conflicts
from tests.verify.memory.memory_plans import WORK, N, broken, moved, place, plan, problem, random_problem

pytestmark = pytest.mark.row("U10")

A = BufferInfo("a", 64, ((0, 2),), 16, producer="conv")
B = BufferInfo("b", 64, ((1, 3),), 16)
W = BufferInfo("w", 32, ((0, 9),), 4, "constant")
FLASH = Pool("flash", "constant", read_only=True)
GOOD = problem(A, B, W, pools=(replace(WORK, limit=200), FLASH))
PLAN = Plan(
    {"a": Place("workspace", 0), "b": Place("workspace", 64), "w": Place("flash", 0)}, {"workspace": 128, "flash": 32}
)


def at(name: str, pool: str, offset: int) -> Plan:
    return replace(PLAN, places={**PLAN.places, name: Place(pool, offset)})


def sized(**sizes: int) -> Plan:
    return replace(PLAN, sizes={**PLAN.sizes, **sizes})


def buffer(which: str, **changes: Any) -> Problem:
    return replace(GOOD, buffers=tuple(replace(b, **changes) if b.name == which else b for b in GOOD.buffers))


FAULTS: dict[str, tuple[str, Problem, Plan, str]] = {
    "one name twice": ("names", buffer("b", name="a"), PLAN, "two buffers are called a"),
    "one pool twice": ("names", replace(GOOD, pools=(*GOOD.pools, WORK)), PLAN, "two pools have one name"),
    "no place": ("placed", GOOD, Plan({"a": PLAN.places["a"]}, PLAN.sizes), "buffer b has no place"),
    "unknown buffer": ("placed", GOOD, at("c", "workspace", 0), "places c, which is no buffer"),
    "unknown pool": ("placed", GOOD, at("b", "ram", 0), "lies in pool ram, which is no pool"),
    "size of an unknown pool": ("placed", GOOD, sized(ram=4), "gives a size to ram"),
    "pool without a size": ("placed", GOOD, Plan(PLAN.places, {"workspace": 128}), "pool flash, which has no size"),
    "not a candidate": ("pool", buffer("w", pools=("workspace",)), PLAN, "none of its candidates"),
    "missing candidate": ("pool", buffer("a", pools=("dtcm",)), PLAN, "wants pool dtcm, which is not there"),
    "constant in a workspace": (
        "pool",
        buffer("w", pools=("workspace",)),
        at("w", "workspace", 128),
        "is of the kind constant",
    ),
    "written in read-only memory": (
        "read only",
        buffer("b", pools=("flash",)),
        at("b", "flash", 32),
        "which is read-only",
    ),
    "alignment of a buffer": ("alignment", buffer("a", alignment=0), PLAN, "buffer a (conv) has the alignment 0"),
    "alignment above the pool's": ("alignment", buffer("a", alignment=128), PLAN, "workspace is aligned to 64"),
    "alignment beside the pool's": ("alignment", buffer("a", alignment=24), PLAN, "workspace is aligned to 64"),
    "alignment of a pool": (
        "alignment",
        replace(GOOD, pools=(replace(WORK, alignment=0), FLASH)),
        PLAN,
        "pool workspace has the alignment 0",
    ),
    "negative size": ("size", buffer("a", nbytes=-4), PLAN, "buffer a (conv) has -4 bytes"),
    "negative pool": ("size", problem(pools=(WORK,)), Plan({}, {"workspace": -1}), "pool workspace has -1 bytes"),
    "by hand": ("by hand", buffer("b", offset=80, pools=("workspace",)), PLAN, "was placed at 80 by hand"),
    "by hand elsewhere": (
        "by hand",
        buffer("b", offset=64, pools=("fast", "workspace")),
        PLAN,
        "which is not where it was placed by hand",
    ),
    "before the pool": ("inside", GOOD, at("a", "workspace", -16), "does not lie within its 128 bytes"),
    "past the pool": ("inside", GOOD, sized(workspace=127), "it takes bytes 64 to 127"),
    "limit": ("limit", GOOD, sized(workspace=201), "has 201 bytes, and its limit is 200"),
    "misaligned": ("aligned", GOOD, at("w", "flash", 2), "is not aligned to 4"),
    "a life that ends before it begins": (
        "life",
        buffer("b", live=((7, 3),)),
        at("b", "workspace", 0),
        "is live in [7, 3), which is no",
    ),
    "a life of no position": ("life", buffer("b", live=((1, 1),)), PLAN, "is live in [1, 1), which is no interval"),
    "a position that is no number": ("life", buffer("b", live=((1, 2.5),)), PLAN, "is live in [1, 2.5)"),
    "a size with a fraction": (
        "size",
        buffer("b", nbytes=63.5),
        PLAN,
        "buffer b has 63.5 bytes, which is no whole number",
    ),
    "an offset with a fraction": ("size", GOOD, at("b", "workspace", 64.5), "at 64.5, which is no whole number"),  # type: ignore[arg-type]
    "a pool with a fraction": ("size", GOOD, sized(workspace=128.0), "pool workspace has 128.0 bytes"),  # type: ignore[arg-type]
    "a size that is a truth": ("size", buffer("b", nbytes=True), PLAN, "buffer b has True bytes"),
    "a limit with a fraction": (
        "limit",
        replace(GOOD, pools=(replace(WORK, limit=128.5), FLASH)),
        PLAN,
        "has the limit 128.5",
    ),
    "an alignment with a fraction": ("alignment", buffer("a", alignment=16.0), PLAN, "has the alignment 16.0, which"),
    "by hand with a fraction": (
        "by hand",
        buffer("b", offset=64.0, pools=("workspace",)),
        PLAN,
        "was placed at 64.0 by hand, which",
    ),
    "a pool beyond int64": (
        "overflow",
        problem(pools=(WORK,)),
        Plan({}, {"workspace": 1 << 63}),
        "more than int64 can count",
    ),
    "a buffer beyond int64": (
        "overflow",
        buffer("b", nbytes=1 << 63),
        sized(workspace=1 << 64),
        "ends at 9223372036854775872",
    ),
    "shared bytes": ("apart", GOOD, at("b", "workspace", 48), "share bytes 48 to 63 of pool workspace"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_claim_has_a_fault_that_is_caught(name: str) -> None:
    claim, given, found, words = FAULTS[name]
    if name == "by hand elsewhere":
        given = replace(given, pools=(*given.pools, Pool("fast")))
    assert [f for f in faults(given, found) if f.claim == claim and words in f.detail]
    assert not check_plan(given, found).holds
    proof = prove_plan(given, found).evidence
    assert not proof.holds and proof.how == "proved"


def test_every_claim_is_broken_somewhere() -> None:
    assert {claim for claim, *_ in FAULTS.values()} == set(CLAIMS)


def test_the_plan_itself_is_good() -> None:
    assert check_plan(GOOD, PLAN).holds and not [*faults(GOOD, PLAN)]
    proof = prove_plan(GOOD, PLAN)
    assert proof.evidence.holds and set(proof.queries) == {"pool0", "pool1"}


def test_a_refutation_names_buffers_bytes_positions_and_pool() -> None:
    for evidence in (check_plan(GOOD, at("b", "workspace", 48)), prove_plan(GOOD, at("b", "workspace", 48)).evidence):
        assert (
            evidence.detail
            == "buffers a (conv) and b share bytes 48 to 63 of pool workspace while both are live, at position 1"
        )
        assert evidence.data == {
            "claim": "apart", "pool": "workspace", "buffers": ("a", "b"), "bytes": (48, 64), "positions": (1, 2)
        }  # fmt: skip


def test_random_good_plans_are_proved() -> None:
    rng = random.Random(1)
    for _ in range(60):
        given = random_problem(rng, rng.randrange(12))
        found = place(given)
        assert check_plan(given, found).holds
        assert prove_plan(given, found).evidence.holds


def test_z3_agrees_with_the_definition_on_plans_with_a_number_off() -> None:
    rng = random.Random(2)
    verdicts = {True: 0, False: 0}
    for _ in range(30):
        given = random_problem(rng, rng.randrange(2, 12))
        for found in broken(rng, given, place(given)):
            expected, proof = check_plan(given, found), prove_plan(given, found).evidence
            assert proof.holds == expected.holds, (expected, proof)
            verdicts[expected.holds] += 1
            if proof.data.get("claim") == "apart":
                assert any(set(f.buffers) == set(proof.data["buffers"]) and f.bytes == proof.data["bytes"]
                           and f.positions == proof.data["positions"] for f in faults(given, found))  # fmt: skip
    assert min(verdicts.values()) > 7


def test_neighbours_find_every_clash() -> None:
    """Without the definition in the text: the linear claims alone."""
    rng = random.Random(3)
    clashes = 0
    for _ in range(300):
        given = random_problem(rng, rng.randrange(2, 9), 8)
        places = {b.name: Place("workspace", rng.randrange(100)) for b in given.buffers}
        found = Plan(places, {"workspace": 200})
        there = [box for box in boxes(given, found, "workspace") if box.nbytes]
        near = any(there[j].offset < there[i].offset + there[i].nbytes for i, j in neighbours(there))
        assert near == any(overlapping(given, found))
        clashes += near
        for i, j in neighbours(there):
            assert both_live(there[i].buffer, there[j].buffer)
    assert 50 < clashes < 290


def test_the_definition_in_the_text_needs_no_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep that lists nothing is caught by the other half of a small text."""
    monkeypatch.setattr("assay.verify.memory.query.neighbours", lambda found: iter(()))
    evidence = prove_plan(GOOD, at("b", "workspace", 48)).evidence
    assert "share bytes 48 to 63" in evidence.detail


def many(count: int = SMALL + 100) -> tuple[Problem, Plan]:
    """More buffers than the definition is stated for: five side by side, lives with gaps, one without bytes."""
    lives = [((i, i + 5),) if i % 7 else ((i, i + 2), (i + 4, i + 5)) for i in range(count)]
    given = problem(*(BufferInfo(f"b{i}", 8, lives[i]) for i in range(count)), BufferInfo("none", 0, ((0, count),)))
    return given, plan(40, **{f"b{i}": i % 5 * 8 for i in range(count)}, none=3)


def answer(text: str) -> str:
    """What z3 says of a text alone."""
    solver = z3.Solver()
    solver.from_string(text)
    return str(solver.check())


def test_large_texts_grow_with_neighbours() -> None:
    given, found = many()
    proof = prove_plan(given, found)
    text = proof.queries["pool0"]
    assert proof.evidence.holds and answer(text) == "unsat"
    assert "position" not in text and text.count("(= bad ") < 4 * len(given.buffers)
    bad = prove_plan(given, moved(found, "b77", 1)).evidence
    assert bad.holds is False and "b77" in bad.detail and bad.data["claim"] == "apart"


def test_large_plans_with_a_number_off_are_decided_as_the_definition_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """The claims about many buffers, on few, so that the definition can be asked."""
    monkeypatch.setattr("assay.verify.memory.query.SMALL", -1)
    rng = random.Random(12)
    verdicts = {True: 0, False: 0}
    for _ in range(25):
        given = random_problem(rng, rng.randrange(2, 14))
        for found in (place(given), *broken(rng, given, place(given))):
            expected, proof = check_plan(given, found), prove_plan(given, found)
            assert proof.evidence.holds == expected.holds, (expected, proof.evidence)
            verdicts[expected.holds is True] += 1
            if proof.evidence.data.get("claim") == "apart":
                assert any(set(f.buffers) == set(proof.evidence.data["buffers"]) for f in faults(given, found))
    assert min(verdicts.values()) > 15


def test_the_text_of_many_buffers_has_what_the_plan_says() -> None:
    """Read anew, without the code that wrote it: offsets, sizes and lives are those of the problem, in formulas."""
    given, found = many()
    text = "\n".join(
        line for line in prove_plan(given, found).queries["pool0"].splitlines() if not line.startswith(";")
    )
    said = {name: int(value) for name, value in re.findall(r"\(define-fun (\w+) \(\) Int (\d+)\)", text)}
    for i, b in enumerate(given.buffers):
        assert (said[f"o{i}"], said[f"n{i}"]) == (found.places[b.name].offset, b.nbytes)
        assert tuple((said[f"s{i}_{k}"], said[f"e{i}_{k}"]) for k in range(len(b.live))) == b.live
    for name in ("e78_0", "s84_1", "o80", "y79_0", "b79_0"):
        assert re.search(rf"\(define-fun {name} \(\) Int \d+\)", text), name
        for other in (said[name] + 1, said[name] - 1):
            planted = text.replace(f"(define-fun {name} () Int {said[name]})", f"(define-fun {name} () Int {other})")
            assert answer(planted) == "sat", (name, other)


@pytest.mark.parametrize("plant", ["spell", "short", "life", "order"])
def test_a_list_of_neighbours_that_leaves_something_out_proves_nothing(
    monkeypatch: pytest.MonkeyPatch, plant: str
) -> None:
    """The sweep is not trusted: one that hides a clash is found out by the text alone, and one that hides nothing
    too."""
    given, good = many()
    wrong = moved(good, "b77", -8)
    assert not check_plan(given, wrong).holds

    def planted(lives: Sequence[Any], offsets: Sequence[int], deadline: Any) -> Chain:
        if plant == "life":  # it does not see that 77 is live beside 76
            return adjacency([((78, 79),) if i == 77 else live for i, live in enumerate(lives)], offsets, deadline)
        made = adjacency(lives, offsets, deadline)
        beneath, above = ({k: list(v) for k, v in there.items()} for there in (made.beneath, made.above))
        spell = above[77][0]
        if plant == "spell":
            above[77].remove(spell)
        elif plant == "short":
            shorter = replace(spell, stop=spell.stop - 1)
            above[77][0] = beneath[spell.above][spell.number] = shorter
        else:  # two are said to lie next beneath the same
            j = above[77][0].above
            extra = Spell(j, len(beneath[j]), spell.start, spell.stop, 77)
            beneath[j].append(extra)
            above[77][0] = extra
        return Chain(beneath, above)

    monkeypatch.setattr("assay.verify.memory.query.adjacency", planted)
    for found in (good, wrong):
        there = boxes(given, found, "workspace")
        assert answer(query(there, WORK, 40).text) == "sat"
    for found in (good, wrong):  # which of the broken claims a model names is z3's choice
        try:
            evidence = prove_plan(given, found).evidence
            assert found is wrong and evidence.holds is False
        except Crash as crash:
            assert "the sweep is wrong" in str(crash)


def test_too_many_buffers_are_not_put_to_z3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.verify.memory.proof.MANY", 2)
    proof = prove_plan(GOOD, PLAN)
    assert proof.evidence.holds
    monkeypatch.setattr("assay.verify.memory.proof.MANY", 1)
    proof = prove_plan(GOOD, PLAN)
    assert proof.evidence.holds is None and proof.evidence.exit == 4 and not proof.queries["pool0"]


def test_what_is_late_is_unknown() -> None:
    """A clock that has run out, at once or while the text is made: never proved, never refuted, never waited for."""
    given, found = many()
    for turns in (0, 1, 5, 9):
        ticks = iter([0.0] * (turns + 1))
        late = prove_plan(given, found, Deadline(1.0, lambda t=ticks: next(t, 2.0))).evidence
        assert late.holds is None and late.exit == 4 and "time was up" in late.detail


def test_lives_with_gaps_share() -> None:
    """What is live in the gap of another may take its bytes."""
    outer = BufferInfo("outer", 8, ((0, 2), (6, 8)))
    inner = BufferInfo("inner", 8, ((2, 6),))
    given = problem(outer, inner)
    assert prove_plan(given, plan(8, outer=0, inner=0)).evidence.holds
    longer = problem(outer, replace(inner, live=((2, 7),)))
    assert prove_plan(longer, plan(8, outer=0, inner=0)).evidence.data["positions"] == (6, 7)


def test_odd_lives_are_read_as_sets() -> None:
    assert union(((5, 7), (0, 2), (2, 3), (6, 9))) == ((0, 3), (5, 9))
    given = problem(replace(A, live=((5, 7), (0, 2), (1, 4))), replace(B, live=((3, 4),)))
    for found, good in ((plan(128, a=0, b=64), True), (plan(128, a=0, b=48), False)):
        assert check_plan(given, found).holds == prove_plan(given, found).evidence.holds == good


def test_conflicts_given_as_pairs() -> None:
    given = from_conflicts({"a": 8, "b": 8, "c": 8}, [("a", "b"), ("c", "b")])
    assert prove_plan(given, plan(16, a=0, b=8, c=0)).evidence.holds
    assert prove_plan(given, plan(16, a=0, b=8, c=8)).evidence.data["buffers"] == ("b", "c")


NAMES = ["a\n(assert false)", 'say "x"', "pipe | pipe", "; comment", "\\", "ü\u2028\r\0", "\ud800", ")" * 500]


@pytest.mark.row("U12")
@pytest.mark.parametrize("good", [True, False])
def test_names_do_not_reach_the_text(good: bool) -> None:
    """A name that ends its comment could assert false, and everything would be proved."""
    buffers = [BufferInfo(n, 8, ((0, 2),), producer=n) for n in NAMES]
    pool = Pool("p\n(assert false)\n|")
    offsets = {n: Place(pool.name, 8 * i if good else 0) for i, n in enumerate(NAMES)}
    proof = prove_plan(Problem(tuple(buffers), (pool,)), Plan(offsets, {pool.name: 8 * len(NAMES)}))
    assert proof.evidence.holds == good
    text = proof.queries["pool0"]
    assert text.isascii() and "\n(assert false)" not in text
    if available():
        assert recheck_text(text) == ("unsat" if good else "sat")


def test_a_size_with_symbols_is_checked_at_values() -> None:
    given = problem(replace(A, nbytes=16 * N), B)
    found = plan(128, a=0, b=64)
    assert check_plan(given, found, {N: 4}).holds
    assert "share bytes 64 to 79" in check_plan(given, found, {N: 5}).detail
    with pytest.raises(Invalid, match="unbound scalar variable n"):
        check_plan(given, found)


def test_unknown_is_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.verify.memory.solve.solve.__defaults__", ((), 1, NEVER))
    evidence = prove_plan(GOOD, PLAN).evidence
    assert evidence.holds is None and evidence.exit == 4 and "does not know" in evidence.detail

"""Proofs of memory plans: the second solver, and cost."""

from __future__ import annotations

import random
import sys
import time
from types import SimpleNamespace

import pytest

from assay.semantics.errors import Invalid
from assay.semantics.memory import BufferInfo, Place, Plan, Problem
from assay.verify.memory import prove_plan, recheck_text, second_opinion
from assay.verify.memory.proof import prove_pool
from assay.verify.memory.query import boxes, query
from tests.verify.memory.memory_plans import WORK, broken, moved, place, random_problem
from tests.verify.memory.test_memory_proof import FAULTS, GOOD, PLAN

pytestmark = pytest.mark.row("U10")


# --- the second solver
# -------------------------------------------------------------------------------------------------


@pytest.mark.peer
def test_cvc5_agrees() -> None:
    pytest.importorskip("cvc5", reason="cvc5 is not installed")
    rng = random.Random(5)
    for _ in range(10):
        given = random_problem(rng, 9)
        for found in (place(given), *broken(rng, given, place(given))):
            proof = prove_plan(given, found)
            opinion = second_opinion(proof.queries, holds=proof.evidence.holds)
            assert opinion.holds and not opinion.data["undecided"], opinion


@pytest.mark.parametrize(
    ("says", "holds", "words"),
    [("unsat", True, "agrees on 2 texts"), ("sat", False, "the solvers disagree on pool0: z3 says unsat, cvc5 sat"),
     ("unknown", None, "agrees on 0 texts; not decided again by both: pool0, pool1")],
)  # fmt: skip
def test_solvers_that_disagree_are_a_failure(
    says: str, holds: bool | None, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay.verify.memory.second.recheck_questions", lambda text: [says])
    opinion = second_opinion(prove_plan(GOOD, PLAN).queries)
    assert opinion.holds == holds and words in opinion.detail


def test_a_text_that_was_changed_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.verify.memory.second.recheck_questions", lambda text: ["sat"])
    text = prove_plan(GOOD, PLAN).queries["pool0"].replace("(define-fun o1 () Int 64)", "(define-fun o1 () Int 63)")
    assert "is satisfiable, and was called proved" in second_opinion({"pool0": text}).detail


def test_without_cvc5_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cvc5", None)
    with pytest.raises(Invalid, match=r"cvc5 is not installed.*smt\.C1"):
        recheck_text("(check-sat)")


class Commands:
    """In place of cvc5: each line of a text is a command, and says what stands behind its `;`."""

    SMT_LIB_2_6 = "smtlib"

    def __init__(self, _: object = None) -> None:
        self.lines: list[str] = []

    def setOption(self, name: str, value: str) -> None:
        assert (name, int(value) > 0) == ("rlimit-per", True)

    def setStringInput(self, language: str, text: str, name: str) -> None:
        assert language == self.SMT_LIB_2_6
        self.lines = text.splitlines()

    def getSymbolManager(self) -> None:
        return None

    def nextCommand(self) -> SimpleNamespace:
        line = self.lines.pop(0) if self.lines else None
        return SimpleNamespace(isNull=lambda: line is None, invoke=lambda solver, names: (line or "").partition(";")[2])


def test_the_second_solver_has_to_give_one_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """What all commands of a text print together: one of the three words, once."""
    here = SimpleNamespace(TermManager=Commands, Solver=Commands, InputParser=Commands, InputLanguage=Commands)
    monkeypatch.setitem(sys.modules, "cvc5", here)
    for word in ("unsat", "sat", "unknown"):
        assert recheck_text(f"(set-logic QF_LIA)\n(check-sat);{word}") == word
    for text in ("(set-logic QF_LIA)", "(check-sat);sat\n(check-sat);sat", "(echo);so"):
        with pytest.raises(Invalid, match="1 answer of cvc5"):
            recheck_text(text)


@pytest.mark.peer
def test_what_cvc5_cannot_read() -> None:
    pytest.importorskip("cvc5", reason="cvc5 is not installed")
    for text in ("(check-sat", "(set-logic QF_LIA)"):
        with pytest.raises(Invalid, match=r"cvc5"):
            recheck_text(text)


# --- cost
# ----------------------------------------------------------------------------------------------------------------


def large(count: int) -> tuple[Problem, Plan]:
    rng = random.Random(7)
    buffers = []
    for i in range(count):
        start = rng.randrange(count // 2)
        buffers.append(BufferInfo(f"b{i}", rng.randrange(1, 4096), ((start, start + rng.randrange(1, 9)),), 16))
    places: dict[str, Place] = {}
    tops: list[tuple[int, int, int]] = []  # stop, low, high
    size = 0
    for b in sorted(buffers, key=lambda b: b.live):
        tops = [t for t in tops if t[0] > b.live[0][0]]
        at = 0
        for _, low, high in sorted(tops, key=lambda t: t[1:]):
            if at + b.nbytes <= low:
                break
            at = max(at, -(-high // 16) * 16)
        places[b.name] = Place("workspace", at)
        tops.append((b.live[0][1], at, at + b.nbytes))
        size = max(size, at + b.nbytes)
    return Problem(tuple(buffers), (WORK,)), Plan(places, {"workspace": size})


@pytest.mark.bench
def test_ten_thousand_buffers() -> None:
    given, found = large(10_000)
    before = time.process_time()
    assert prove_plan(given, found).evidence.holds
    spent = time.process_time() - before
    print(f"10,000 buffers: {spent:.2f} s")
    small, there = large(1000)
    before = time.process_time()
    assert prove_plan(small, there).evidence.holds
    assert spent < 30 * (time.process_time() - before)
    at_one = next(b.name for b in given.buffers if found.places[b.name].offset)
    assert at_one in prove_plan(given, moved(found, at_one, -16)).evidence.detail


def test_one_pool_by_itself() -> None:
    """The claims of a text about single buffers are z3's own, not only the walk's before it."""
    for name, words in (
        ("before the pool", "buffer a (conv) at offset -16"),
        ("limit", "its limit is 200"),
        ("misaligned", "buffer w"),
    ):
        _, given, found, _ = FAULTS[name]
        texts = [prove_pool(boxes(given, found, p.name), p, found.sizes[p.name]) for p in given.pools]  # type: ignore[arg-type]
        assert [e.detail for e, _ in texts if not e.holds and words in e.detail]
    assert query([], WORK, 0).claims == (("pool", ()),)

"""Proofs of symbolic plans believe nothing of the search that found them: faults planted in it are found out by the
text alone, read anew (specs/verify.md, "Memory plans")."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import pytest
import z3

from assay.semantics.dtypes import INT32, INT64
from assay.semantics.integers.polynomials import Polynomial, PolynomialQuotient, number
from assay.semantics.integers.ranges import Range
from assay.semantics.memory import BufferInfo, Plan, Problem, overlap
from assay.semantics.scalar import apply, cast, select
from assay.verify.memory import available, check_plan, prove_plan, recheck_text
from assay.verify.memory.chain import TOP, adjacency
from assay.verify.memory.derive import derive
from assay.verify.memory.forms import Forms
from assay.verify.memory.goals import Goals, forms_text, linear_text, local_text
from assay.verify.memory.grounds import Grounds
from assay.verify.memory.lives import chain_text, pairs_text
from assay.verify.memory.solve import questions
from tests.verify.memory.memory_plans import M, N, life, plan, problem, up

FAR = 5000
"""Beyond all values that are tried before anything is proved."""


def wrong_far_away() -> tuple[Problem, Plan]:
    """Side by side up to n = 5000, and one on the other from there on."""
    given = problem(BufferInfo("a", N, ((0, 2),)), BufferInfo("b", 8, ((0, 2),)))
    return given, plan(N + 8, a=0, b=apply("min", N, FAR))


def answers(text: str) -> set[str]:
    """What z3 says to the questions of a text, each a text of its own, with nothing else beside it."""
    said = set()
    for question in questions(text):
        for solver in (z3.SimpleSolver(), z3.Solver()):
            solver.set("rlimit", 20_000_000)
            solver.from_string(question)
            if (found := str(solver.check())) != "unknown":
                break
        said.add(found)
    if available():
        assert recheck_text(text) == ("sat" if "sat" in said else "unsat")
    return said


def test_the_wrong_plan_is_refuted_where_nothing_is_planted() -> None:
    given, found = wrong_far_away()
    assert prove_plan(given, found).evidence.data["dims"] == {"n": FAR + 1}


@pytest.mark.parametrize("factor", [1, 2])
def test_a_false_fact_proves_nothing(monkeypatch: pytest.MonkeyPatch, factor: int) -> None:
    """The search says of whatever is asked that it is a fact, or twice it; that used to be a proof."""

    def lying(
        goal: Polynomial, forms: Forms, ranges: list[Range], points: Sequence[list[int]] = ()
    ) -> tuple[Polynomial, ...]:
        return (goal.scaled(factor),)

    monkeypatch.setattr("assay.verify.memory.symbolic.derive", lying)
    given, found = wrong_far_away()
    evidence = prove_plan(given, found).evidence
    assert evidence.holds is False and evidence.data["dims"] == {"n": FAR + 1}
    good = problem(BufferInfo("a", N * M, ((0, 2),)), BufferInfo("b", 8, ((0, 2),)))
    proof = prove_plan(good, plan(up(N * M) + 8, a=0, b=up(N * M)))
    assert proof.evidence.holds and all(answers(text) == {"unsat"} for text in proof.queries.values())


def test_a_false_fact_is_found_in_the_text_alone() -> None:
    given, found = wrong_far_away()
    forms = Forms({})
    goal = Goals(forms, found).below(*given.buffers)
    false = goal.ways[0].form
    assert answers(local_text([(goal, (false,))], forms, "planted")) == {"sat", "unsat"}
    true = Goals(forms, plan(N + 8, a=0, b=up(N))).below(*given.buffers)
    facts = derive(true.ways[0].form, forms, forms.ranges)
    assert facts is not None and answers(local_text([(true, facts)], forms, "honest")) == {"unsat"}


def test_every_fact_of_a_text_is_a_question_of_it() -> None:
    """One planted beside the true ones, of each kind: a number, a symbol, a quotient, a product, a maximum."""
    given = problem(BufferInfo("a", N * M, ((0, 2),)), BufferInfo("b", 8, ((0, 2),)))
    forms = Forms({})
    goal = Goals(forms, plan(0, a=0, b=up(N * M))).below(*given.buffers)
    facts = derive(goal.ways[0].form, forms, forms.ranges)
    assert facts is not None
    assert answers(local_text([(goal, facts)], forms, "honest")) == {"unsat"}
    for dim in (
        N - 1,
        up(N * M) - N * M - 1,
        N * M - N,
        up(M) - M * 64,
        apply("max", N, M) - N - 1,
        (N * M) // (M + 1) - N,
    ):
        assert "sat" in answers(local_text([(goal, (*facts, forms.of(dim)))], forms, "planted")), dim
    assert "sat" in answers(local_text([(goal, (*facts, number(-1)))], forms, "planted"))


@pytest.mark.parametrize("by", [32, 63, 65])
def test_a_wrong_definition_of_an_atom_is_found(monkeypatch: pytest.MonkeyPatch, by: int) -> None:
    """A quotient by 64 that the text defines as one by another number: what is used of it does not follow."""
    honest = Grounds.definition

    def lying(self: Grounds, atom: int) -> str | None:
        what = self.forms.atoms[atom]
        said = honest(self, atom)
        return said.replace(" 64)", f" {by})") if said is not None and isinstance(what, PolynomialQuotient) else said

    given = problem(BufferInfo("a", N, ((0, 2),)), BufferInfo("b", 8, ((0, 2),)))
    found = plan(up(N) + 8, a=0, b=up(N))
    assert prove_plan(given, found).evidence.holds
    monkeypatch.setattr(Grounds, "definition", lying)
    forms = Forms({})
    goal = Goals(forms, found).below(*given.buffers)
    facts = derive(goal.ways[0].form, forms, forms.ranges)
    assert facts is not None
    assert "sat" in answers(forms_text(forms)), "what the expression says is another number"
    assert prove_plan(given, found).evidence.holds is None
    if by > 64:  # what is larger than it must be leaves a true goal true
        assert "sat" in answers(local_text([(goal, facts)], forms, "planted"))
        assert "sat" in answers(linear_text([goal], forms, "planted", deep=True))


OPERATORS: dict[str, Any] = {
    "sum": lambda: 3 * N + M - 4,
    "product": lambda: (N + 1) * (M + 2),
    "quotient": lambda: (64 * N + M + 7) // 8,
    "remainder": lambda: (10 * N + M + 7) % 8,
    "by a symbol": lambda: N // (M + 1) + 3,
    "maximum": lambda: apply("max", 4 * N + 8, 4 * M + N),
    "minimum": lambda: apply("min", 4 * N + 8, 4 * M),
    "decided": lambda: apply("max", N + M, N - 1),
    "absolute": lambda: apply("abs", N - M),
    "shift": lambda: apply("shr", apply("shl", N, 3) + M, 2),
    "truncated": lambda: apply("truncdiv", N, 3) + apply("truncmod", M, 5),
    "cast": lambda: cast(cast(N, INT32), INT64) * 4,
    "choice": lambda: select(apply("lt", N, M), N, M) + 1,
    "not looked into": lambda: apply("bitxor", N, M) + 1,
}


@pytest.mark.parametrize("name", OPERATORS)
def test_a_form_that_is_not_its_expression_is_found(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Each operator: what stands for it is shown, and what is one more than it, or another symbol, is not."""
    dim = OPERATORS[name]()
    bounds: Any = {N: (0, 1 << 20), M: (0, 1 << 20)}
    forms = Forms(bounds)
    forms.of(dim)
    assert answers(forms_text(forms)) == {"unsat"}
    honest = Forms._node
    for planted in (lambda f: f + number(1), lambda f: f.scaled(2) + number(1)):
        with monkeypatch.context() as patch:
            patch.setattr(
                Forms,
                "_node",
                lambda self, node, p=planted: p(honest(self, node)) if node is dim else honest(self, node),
            )
            wrong = Forms(bounds)
            wrong.of(dim)
            assert answers(forms_text(wrong)) != {"unsat"}, name


def test_a_fact_that_is_too_much_is_found_among_all_linear_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other kind of text, with all facts that are known of its atoms: one planted there is a question too."""
    honest = Forms.facts

    def lying(self: Forms, wanted: Any, ranges: Any = None) -> Any:
        yield from honest(self, wanted, ranges)
        yield self.of(FAR - N)

    monkeypatch.setattr(Forms, "facts", lying)
    monkeypatch.setattr("assay.verify.memory.symbolic.derive", lambda *given: None)
    given, found = wrong_far_away()
    assert prove_plan(given, found).evidence.holds is not True
    forms = Forms({})
    assert "sat" in answers(linear_text([Goals(forms, found).below(*given.buffers)], forms, "planted"))


def test_the_bounds_of_symbols_are_all_that_is_assumed() -> None:
    """With every assertion before the first question taken away nothing but the bounds is gone."""
    given = problem(BufferInfo("a", N * M, ((0, 2),)), BufferInfo("b", 8, ((0, 2),)), n=(1, 40), m=(2, None))
    found = plan(up(N * M) + 8, a=0, b=up(N * M))
    proof = prove_plan(given, found)
    assert proof.evidence.holds and check_plan(given, found, {N: 3, M: 4}).holds
    for text in (t for t in proof.queries.values() if "(push 1)" in t):
        head = text.split("(push 1)")[0]
        asserted = [line for line in head.splitlines() if line.startswith("(assert")]
        assert all(line.startswith(("(assert (>= v", "(assert (<= v")) for line in asserted) and 3 <= len(asserted) <= 4


# --- which are live together
# -------------------------------------------------------------------------------------------


def random_lives(rng: random.Random, count: int) -> list[BufferInfo]:
    return [BufferInfo(f"b{i}", 8, life(rng, 14)) for i in range(count)]


def test_a_list_of_pairs_is_whole_or_it_is_noticed() -> None:
    rng = random.Random(8)
    planted = 0
    for _ in range(25):
        buffers = random_lives(rng, rng.randrange(2, 9))
        pairs = {(i, j) for i, j in combinations(range(len(buffers)), 2) if overlap(buffers[i].live, buffers[j].live)}
        assert answers(pairs_text(buffers, pairs)) == {"unsat"}
        assert answers(pairs_text(buffers, {(j, i) for i, j in pairs})) == {"unsat"}
        for pair in sorted(pairs)[:3]:
            assert answers(pairs_text(buffers, pairs - {pair})) == {"sat"}
            planted += 1
    assert planted > 30


def test_a_list_of_neighbours_is_whole_or_it_is_noticed() -> None:
    rng = random.Random(9)
    planted = 0
    for _ in range(25):
        buffers = random_lives(rng, rng.randrange(2, 9))
        offsets = [8 * i for i in range(len(buffers))]
        rng.shuffle(offsets)
        made = adjacency([b.live for b in buffers], offsets)
        near = {(s.below, s.above) for there in made.beneath.values() for s in there if s.above != TOP}
        assert answers(chain_text(buffers, offsets, near)) == {"unsat"}
        for pair in sorted(near)[:3]:
            assert answers(chain_text(buffers, offsets, near - {pair})) == {"sat"}
            planted += 1
    assert planted > 30


@pytest.mark.parametrize("small", [300, 0])
def test_lives_stand_in_the_formulas(monkeypatch: pytest.MonkeyPatch, small: int) -> None:
    """Of few and of many buffers; a life that the texts have otherwise than the plan is a life of the text."""
    monkeypatch.setattr("assay.verify.memory.symbolic.SMALL", small)
    given = problem(BufferInfo("a", N, ((0, 2),)), BufferInfo("b", 8, ((1, 4),)), BufferInfo("c", N, ((3, 6),)))
    proof = prove_plan(given, plan(up(N) + 8, a=0, b=up(N), c=0))
    text = proof.queries["pool0-lives"]
    assert proof.evidence.holds and answers(text) == {"unsat"}
    name = "e0_0" if small == 0 else "e0"
    assert f"(define-fun {name} () Int 2)" in text
    assert answers(text.replace(f"(define-fun {name} () Int 2)", f"(define-fun {name} () Int 4)")) == {"sat"}

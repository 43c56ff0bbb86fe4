"""Goals, their verdicts, and z3's answer to one query (specs/verify.md, "Proofs for all sizes")."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import z3

from assay.semantics.errors import Span
from assay.semantics.scalar import Var
from assay.semantics.scalar.smt import Term
from assay.verify.proof_texts import keep_question

RLIMIT = 4_000_000
"""z3's resource limit for one query, some seconds: deterministic, unlike a time limit. Reaching it is "unknown"."""

SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 256, 1 << 12, 1 << 16, 1 << 20, 1 << 26, 1 << 32, 1 << 44)
"""Sizes among which a counterexample is looked for, small ones first."""

Kind: TypeAlias = Literal[
    "in bounds",
    "independent",
    "side by side",
    "written before",
    "output written",
    "no overflow",
    "no division by zero",
    "shift",
    "cast",
    "dims not negative",
    "in domain",
    "in region",
    "as matched",
    "writable",
    "own memory",
    "aligned",
    "understood",
]
Verdict: TypeAlias = Literal["proved", "refuted", "unknown"]

TRAPS: dict[Kind, str] = {
    "in bounds": "out of bounds",
    "independent": "race",
    "side by side": "carried dependence",
    "written before": "unwritten read",
    "output written": "unwritten output",
    "no division by zero": "division by zero",
    "shift": "shift",
    "cast": "cast",
    "in domain": "assertion",
    "in region": "undeclared access",
    "as matched": "shape",
    "writable": "store to constant",
    "own memory": "wrong scope",
    "aligned": "misaligned",
}
"""The kind of the trap that a run gives where a goal does not hold."""


@dataclass(frozen=True)
class Goal:
    """One claim for all sizes, and what became of it.

    `detail` says, for a refutation, what the run gave and, for unknown, why. `sizes` and `iteration` are those of the
    counterexample, by name. `query` is SMT-LIB text, unsatisfiable exactly if the claim holds; empty where none was
    made.
    """

    kind: Kind
    claim: str
    verdict: Verdict
    where: Span | None = None
    detail: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)
    iteration: Mapping[str, int] = field(default_factory=dict)
    query: str = ""


@dataclass(frozen=True)
class ProofReport:
    """All goals of a function. `assumes` is what the proofs take for granted."""

    function: str
    goals: Sequence[Goal]
    assumes: Sequence[str]

    @property
    def verdict(self) -> Verdict:
        """Proved only if every goal is; refuted if any is."""
        found = {g.verdict for g in self.goals}
        return "refuted" if "refuted" in found else "unknown" if "unknown" in found else "proved"

    def of(self, verdict: Verdict) -> list[Goal]:
        """The goals with this verdict."""
        return [g for g in self.goals if g.verdict == verdict]


@dataclass(frozen=True)
class Answer:
    """z3's answer to whether constraints can hold at once; `model` with small sizes if they can."""

    holds: Literal["never", "sometimes", "unknown"]
    text: str
    model: Any = None
    reason: str = ""

    def number(self, term: Term) -> int:
        """The value of an integer term in the counterexample."""
        return int(self.model.eval(term, model_completion=True).as_long())


def decide(constraints: Iterable[Term], comment: str) -> Answer:
    """Whether some values satisfy all constraints; `comment` heads the text of the query."""
    solver = _solver(constraints)
    head = "".join(f"; {line}\n" for line in comment.splitlines())
    body = solver.to_smt2().split("\n", 1)
    lines = body[1] if body[0].startswith(";") else "\n".join(body)
    text = f"{head}(set-logic ALL)\n" + "\n".join(x for x in lines.splitlines() if not x.startswith("(set-info")) + "\n"
    answer = solver.check()
    if answer == z3.unsat:
        keep_question(comment, solver.assertions())
        return Answer("never", text)
    if answer == z3.unknown:
        return Answer("unknown", text, reason=solver.reason_unknown())
    return Answer("sometimes", text, solver.model())


def smallest(constraints: Sequence[Term], symbols: Mapping[Var, Term], found: Answer) -> Answer:
    """The same answer with sizes as small as they are easily made. Where z3 did not know, small sizes may be easier."""
    sizes = [s for v, s in symbols.items() if v.dtype.is_integer]
    if not sizes:
        return found
    best, most = found, max(abs(found.number(s)) for s in sizes) if found.model is not None else SIZES[5]
    for bound in SIZES:
        if bound >= most:
            break
        model = _model([*constraints, *(z3.And(-bound <= s, s <= bound) for s in sizes)])
        if model is not None:
            best = Answer("sometimes", found.text, model)
            break
    if best.model is None:
        return found
    fixed: list[Term] = []
    for s in sizes:
        now = best.number(s)
        if 0 < now <= 16:
            others = [t <= max(best.number(t), 16) for t in sizes]
            for smaller in range(now):
                model = _model([*constraints, *fixed, *others, s == smaller])
                if model is not None:
                    best = Answer("sometimes", found.text, model)
                    break
        fixed.append(s == best.number(s))
    return best


def _solver(constraints: Iterable[Term], limit: int = RLIMIT) -> Any:
    solver = z3.Solver()
    solver.set("rlimit", limit)
    solver.add(*constraints)
    return solver


def _model(constraints: Iterable[Term]) -> Any:
    solver = _solver(constraints, RLIMIT // 10)
    return solver.model() if solver.check() == z3.sat else None

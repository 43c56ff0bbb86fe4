"""z3's answer to a text (specs/verify.md, "Memory plans").

A text asks one question, or several between `(push 1)` and `(pop 1)`, with what stands before the first of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import z3

from assay.semantics.deadline import NEVER, Deadline

RLIMIT = 2_000_000_000
"""z3's resource limit for one text about many buffers: deterministic, unlike a time limit."""

QUICK = 1_000_000
"""The limit of a first try at a small question."""

MOST_MILLISECONDS = 1 << 31
"""The longest time that z3 is told."""

Answer: TypeAlias = Literal["unsat", "sat", "unknown"]
"""`unsat`: what the text asks for does not exist, so the claim holds. `unknown` never counts as that."""


@dataclass(frozen=True)
class Solved:
    """An answer, the values of some integer constants if it is `sat`, the reason if it is `unknown`."""

    answer: Answer
    values: dict[str, int]
    reason: str = ""
    question: int = 0
    """Which question of the text was answered so; all of them, if the answer is `unsat`."""


BEGIN, END = "(push 1)", "(pop 1)"


def questions(text: str) -> list[str]:
    """Each question of a text as a text of its own."""
    head, *parts = f"\n{text}".split(f"\n{BEGIN}\n")
    return [f"{head}\n{part.split(f'{chr(10)}{END}')[0]}\n" for part in parts] or [text]


def solve(text: str, names: Iterable[str] = (), rlimit: int = RLIMIT, deadline: Deadline = NEVER) -> Solved:
    """Put a text to z3: `unsat` if that is the answer to every question, else the first other answer.

    `names` are integer constants whose values a model gives. Late: the time is up.
    """
    for number, question in enumerate(questions(text)):
        found = None
        if number:  # a small one, often with products, at which z3's plain core is far quicker than its portfolio
            found = _solve(question, names, min(rlimit, QUICK), deadline, z3.SimpleSolver())
        if found is None or found.answer == "unknown":
            found = _solve(question, names, rlimit, deadline, z3.Solver())
        if found.answer != "unsat":
            return replace(found, question=number)
    return Solved("unsat", {})


def limit(solver: z3.Solver, deadline: Deadline) -> None:
    """z3 is to end with what is left of the time. Late: nothing is."""
    deadline.check()
    if deadline.left is not None:
        solver.set("timeout", max(1, min(int(deadline.left * 1000), MOST_MILLISECONDS)))


def _solve(text: str, names: Iterable[str], rlimit: int, deadline: Deadline, solver: z3.Solver) -> Solved:
    deadline.check()
    solver.set("rlimit", rlimit)
    solver.from_string(text)
    limit(solver, deadline)
    answer = solver.check()
    if answer == z3.unsat:
        return Solved("unsat", {})
    if answer == z3.unknown:
        return Solved("unknown", {}, solver.reason_unknown())
    model = solver.model()
    return Solved("sat", {n: model.eval(z3.Int(n), model_completion=True).as_long() for n in names})

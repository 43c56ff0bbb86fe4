"""z3's answer to a text (specs/verify.md, "Memory plans")."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import z3

RLIMIT = 2_000_000_000
"""z3's resource limit for one text about many buffers: deterministic, unlike a time limit."""

Answer: TypeAlias = Literal["unsat", "sat", "unknown"]
"""`unsat`: what the text asks for does not exist, so the claim holds. `unknown` never counts as that."""


@dataclass(frozen=True)
class Solved:
    """An answer, the values of some integer constants if it is `sat`, the reason if it is `unknown`."""

    answer: Answer
    values: dict[str, int]
    reason: str = ""


def solve(text: str, names: Iterable[str] = (), rlimit: int = RLIMIT) -> Solved:
    """Put a text to z3. `names` are integer constants whose values a model gives."""
    solver = z3.Solver()
    solver.set("rlimit", rlimit)
    solver.from_string(text)
    answer = solver.check()
    if answer == z3.unsat:
        return Solved("unsat", {})
    if answer == z3.unknown:
        return Solved("unknown", {}, solver.reason_unknown())
    model = solver.model()
    return Solved("sat", {n: model.eval(z3.Int(n), model_completion=True).as_long() for n in names})

"""What a planner may be told besides the problem (specs/lower.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from assay.semantics.deadline import NEVER, Deadline
from assay.semantics.memory import Plan, Problem

Progress: TypeAlias = Callable[[str], None]


@dataclass(frozen=True)
class Options:
    """Options of `plan`; a planner reads those that it has a use for.

    `seed` fixes all that is random. `effort` is how much may be tried: placements in hill climbing, nodes in the exact
    search; None is the planner's own. `deadline` ends a long run with the best plan so far; without one the plan is the
    same on every machine. `capacity` is a size in bytes of the first pool that is good enough.
    `progress` is told, in a few words, how a long run stands.
    """

    seed: int = 0
    effort: int | None = None
    deadline: Deadline = NEVER
    capacity: int | None = None
    progress: Progress | None = None


Planner: TypeAlias = Callable[[Problem, Options], Plan]

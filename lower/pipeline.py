"""The passes in order (specs/lower.md, "Stages"). Each takes a module and returns a new one; none changes its input."""

from __future__ import annotations

from collections.abc import Callable

from assay.lower.anf import to_anf
from assay.lower.constants import Evaluate, lift_constants
from assay.lower.fuse import fuse
from assay.lower.legalize import legalize
from assay.lower.liveness import find_lives
from assay.lower.pool import Memory, plan
from assay.lower.schedule import schedule
from assay.semantics.module import Module

Pass = Callable[[Module], Module]


def passes(evaluate: Evaluate, memory: Memory | None = None) -> dict[str, Pass]:
    """The passes by stage name, in order. `evaluate` runs a tensor function: constant folding is handed it. `memory` is
    what there is to plan with, by default one pool without a limit."""
    return {
        "anf": to_anf,
        "legalize": legalize,
        "fuse": fuse,
        "constants": lambda module: lift_constants(module, evaluate),
        "schedule": schedule,
        "liveness": find_lives,
        "pool": lambda module: plan(module, memory),
    }

"""Which of two kernels a call at given sizes is worth (specs/verify.md, "Kernels for unknown sizes").

Nobody knows how often sizes will come again. So a kernel of their own is compiled when the kernel for all sizes has
spent, at these sizes, twice what compiling takes: at that moment no better foresight would have spent less than two
thirds of what was spent. Where the new kernel is no faster it is not used.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Literal, TypeAlias

import numpy as np

Results: TypeAlias = tuple[np.ndarray[Any, Any], ...]
FACTOR = 2.0
"""How often the time of compiling is spent before it is."""
USUAL = 0.15
"""Seconds that compiling takes where nothing was compiled yet."""
TRIALS = 3
"""Calls of each kernel that are measured."""


@dataclass(eq=False)
class Tier:
    """What calls at one choice of sizes have taken."""

    stage: Literal["generic", "trying", "special", "settled"] = "generic"
    spent: float = 0.0
    best: dict[bool, float] = field(default_factory=dict)
    tried: int = 0
    lock: Lock = field(default_factory=Lock)

    def run(self, cost: float, run: Callable[[bool], Results]) -> Results:
        """Run a call, by the kernel for its sizes or not; `cost` is what compiling takes, in seconds."""
        special = self.stage in ("trying", "special")
        started = time.perf_counter()
        made = run(special)
        self.learn(special, time.perf_counter() - started, cost or USUAL)
        return made

    def learn(self, special: bool, seconds: float, cost: float) -> None:
        """Go on from what a call took. The first ones of a kernel have it made and compared, and say nothing."""
        with self.lock:
            self.tried += 1
            if self.tried == 1:
                return
            self.best[special] = min(seconds, self.best.get(special, seconds))
            match self.stage:
                case "generic":
                    self.spent += seconds
                    if self.spent > FACTOR * cost:
                        self.stage, self.tried = "trying", 0
                case "trying" if self.tried > TRIALS:
                    self.stage = "special" if self.best[True] < self.best[False] else "settled"
                case _:
                    pass

"""Which way a trial takes through a program, and what must hold for it (specs/verify.md, "Trials")."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np

from assay.semantics.module import Program, Slot
from assay.semantics.scalar import Var
from assay.semantics.steps import Assertion, Branch, Continue, Measure, Require, Step, walk

Array = np.ndarray[Any, Any]


@dataclass
class TrialPath:
    """The steps that run: at each choice the arm that was taken least often, the first with all that is in it. So a
    loop is left when all that is in it has run. What is asserted holds, but at the item `refuse`, where that can be."""

    program: Program
    constants: Mapping[str, Array]
    taken: Counter[tuple[int, bool]]
    """How often each arm was taken before."""
    measured: Mapping[Var, int]
    """What is to be measured."""
    refuse: int | None = None
    steps: list[int] = field(default_factory=list)
    arms: Counter[tuple[int, bool]] = field(default_factory=Counter)
    conditions: dict[int, dict[str, Array]] = field(default_factory=dict)
    """Before which place of the path which conditions become what, and which sizes that are measured."""
    own: dict[str, Array] = field(default_factory=dict)
    """The inputs that have to be so."""
    ends: int | None = None
    """The item at which the run ends, for it asserts what does not hold."""
    loose: set[int] = field(default_factory=set)
    """Before which places of the path something is asked of sizes that the run changes: the run may end there."""

    def __post_init__(self) -> None:
        refused = None if self.refuse is None else self.program.steps[self.refuse]
        if isinstance(refused, Require) and self.program.slots[refused.condition].place == "input":
            self.own[refused.condition] = np.asarray(False)
        for number in walk(self.program.steps, self.choose):
            match step := self.program.steps[number]:
                case Step():
                    self.steps.append(number)
                case Assertion(sizes=pairs) if not all(isinstance(d, int) for pair in pairs for d in pair):
                    self.loose.add(len(self.steps))
                case Measure(slot=""):
                    self.loose.add(len(self.steps))
                case Measure(slot=name):
                    self.measure(name, np.array([self.measured[v] for v in step.symbols], np.int64))
                case Require(condition=name) if not self.holds(self.program.slots[name], number != self.refuse, False):
                    self.ends = number
                    break

    def choose(self, number: int, step: Branch) -> bool:
        """Which arm runs."""
        wanted = self.need(number, step, True) >= self.need(number, step, False)
        # an input stays as it is: a loop that goes on by it never ends
        endless = any(isinstance(s, Continue) for s in self.program.steps[number + 1 : step.then])
        arm = self.holds(self.program.slots[step.condition], wanted, endless)
        self.arms[number, arm] += 1
        return arm

    def holds(self, slot: Slot, wanted: bool, endless: bool) -> bool:
        """What a condition is, which is as it is wanted where it can be changed, and is not decided yet."""
        if slot.place == "constant":
            return bool(np.asarray(self.constants[slot.name]))
        if slot.place == "input":
            return bool(self.own.setdefault(slot.name, np.asarray(wanted and not endless)))
        here = self.conditions.setdefault(len(self.steps), {})
        return bool(here.setdefault(slot.name, np.asarray(wanted)))

    def measure(self, name: str, sizes: Array) -> None:
        """What a slot has to hold when sizes are measured by it."""
        if self.program.slots[name].place == "input":
            self.own[name] = sizes
        elif self.program.slots[name].place != "constant":
            self.conditions.setdefault(len(self.steps), {})[name] = sizes

    def need(self, number: int, step: Branch, arm: bool) -> float:
        """How much there is in an arm that has not run yet; else how seldom it has."""
        low, high = (number + 1, step.then) if arm else (step.then, step.end)
        if self.refuse is not None and low <= self.refuse < high:
            return inf
        inner = [(i, a) for i in range(low, high) if isinstance(self.program.steps[i], Branch) for a in (True, False)]
        new = sum(not self.taken[a] + self.arms[a] for a in [(number, arm), *inner])
        return new + 1 / (2 + self.taken[number, arm] + self.arms[number, arm])

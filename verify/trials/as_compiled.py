"""The C as its users compile it, step by step (specs/verify.md, "compare").

With the platform's libm it has other bits than the machine, and the graph's intervals may exclude nothing. Then each
step is held to its operator's bounds on the very operands that it read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from assay.lower.c import CSource
from assay.semantics.errors import Trap
from assay.semantics.module import Module, Step
from assay.semantics.tensor import PrimFunc
from assay.verify.c.compiled import BegunC, Compiled, Look, begin_c
from assay.verify.children import cores
from assay.verify.liveness.program import describe_step
from assay.verify.trials.helpers import HelperTrials
from assay.verify.trials.planned import SizedSteps

Array = np.ndarray[Any, Any]
Judge = Callable[[PrimFunc, Module, Sequence[Array], Sequence[Array]], str | None]


@dataclass(eq=False)
class WatchedC:
    """C text as libraries that can be watched step by step, each compiled once, however many runs there are. Where
    there is more than one core, the compiler runs beside whoever began it."""

    source: CSource
    begun: dict[str, BegunC] = field(default_factory=dict)

    @cached_property
    def helpers(self) -> HelperTrials:
        """The trials of the C helpers that the source has; the library in the reproducible mode has what calls them."""
        return HelperTrials(self.source)

    @property
    def traced(self) -> Compiled:
        """The C in its reproducible mode."""
        return self._begun("traced").result()

    @property
    def libm(self) -> Compiled:
        """The C as its users compile it, with the platform's libm."""
        return self._begun("libm").result()

    def begin(self, which: str) -> None:
        """Begin to compile "traced" or "libm", which is wanted later."""
        if cores() > 1:
            self._begun(which)

    def abandon(self) -> None:
        """End the compilers that still run."""
        for begun in self.begun.values():
            begun.abandon()

    def _begun(self, which: str) -> BegunC:
        if which not in self.begun:
            exact = which == "traced"
            beside = self.helpers.text() if exact else ""
            self.begun[which] = begin_c(self.source, reproducible=exact, trace=True, beside=beside)
        return self.begun[which]


def step_that_is_outside(watched: Compiled, planned: Module, inputs: Mapping[str, Array], judge: Judge) -> str | None:
    """The first step of a library that can be watched whose results `judge` refuses, and why. `planned` is what the C
    was made of; inputs by slot."""
    program = planned.program
    positions = program.positions
    held: dict[str, Array] = {n: np.asarray(inputs[n]) for n in program.inputs}
    held |= {s.name: planned.constants[s.name] for s in program.placed("constant") if s.name in planned.constants}
    found: list[str] = []
    sized = SizedSteps(planned, inputs)

    def see(index: int, look: Look) -> None:
        step = program.steps[index]
        if found or not isinstance(step, Step):
            return
        sized.come_to(index)
        # what a step read may be gone after it, where it works in place: its operands are those that were kept
        written = {
            n: look(program.slots[n])[: of.nbytes].copy().view(of.dtype.numpy)
            for n, of in ((n, sized.type(n)) for n in step.writes)
        }
        odd = judge(*sized.kernel(step), [held[n] for n in step.reads], list(written.values()))
        for n in written:
            sized.see(n, written[n])
        if odd:
            found.append(f"{describe_step(step, index)}, its operands given: {odd}")
        held.update(written)
        after = positions[index + 1]
        for n in step.reads:
            slot = program.slots[n]
            if slot.place == "workspace" and not slot.is_live(after):
                held.pop(n, None)

    try:
        watched.run(inputs, on_step=see)
    except Trap as trap:
        return f"it does not run: {trap}"
    return found[0] if found else None

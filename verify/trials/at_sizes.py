"""The trials of the compiled C at several values of the sizes that a run measures (specs/verify.md, "Trials")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from assay.semantics.errors import Invalid
from assay.semantics.instance import measured_of
from assay.semantics.module import Assertion, Measure, Module
from assay.semantics.scalar import Var
from assay.verify.c.compiled import Compiled
from assay.verify.trials.native import Trials
from assay.verify.trials.planned import module_at

Array = np.ndarray[Any, Any]
Measured = dict[Var, int]
OUTSIDE = ("constant", "input")
"""Where the slots lie whose contents no run of a program changes."""


@dataclass
class TrialsAtSizes:
    """Trials of one program: at the sizes that a run has measured, then at 0, at 1 and at the greatest, as far as what
    the program asserts allows them. Where nothing is measured there is one."""

    planned: Module
    compiled: Compiled
    inputs: Mapping[str, Array]
    seed: int
    found: Measured
    """The sizes that the run on these inputs has measured."""
    done: list[tuple[Measured, Trials]] = field(default_factory=list)

    def run(self) -> str | None:
        """Where a step of the C differs from its tensor function, if one does."""
        for sizes in self.assignments():
            try:
                module = module_at(self.planned, self.inputs, sizes)
            except Invalid:
                continue  # a dim is negative at these sizes
            if sizes and not _allowed(module):
                continue
            trials = Trials(module, self.compiled, self.inputs, self.seed, sizes)
            wrong = trials.run()
            if wrong is not None:
                return f"{_text(sizes)}: {wrong}" if sizes else wrong
            self.done.append((sizes, trials))
        return None

    def assignments(self) -> Iterator[Measured]:
        """The sizes to try, no two of which are alike: what a constant or an input tells stays as it is."""
        program = self.planned.program
        measures = [s for s in program.steps if isinstance(s, Measure)]
        follow = {v for s in measures if not s.slot for v in s.symbols}
        most = {v: n for v, n in measured_of(program).items() if isinstance(n, int) and v not in follow}
        free = {v for s in measures for n in s.reads if program.slots[n].place not in OUTSIDE for v in s.symbols}
        first = {v: self.found.get(v, 0) for v in most}
        tries = [first, *({v: min(n, k) if v in free else first[v] for v, n in most.items()} for k in (0, 1))]
        tries.append({v: n if v in free else first[v] for v, n in most.items()})
        seen: list[Measured] = []
        for sizes in tries:
            if sizes not in seen:
                seen.append(sizes)
                yield sizes

    def __str__(self) -> str:
        """What was tried, and at which measured sizes."""
        if not self.done:
            return ""
        tried = [_text(sizes) for sizes, _ in self.done if sizes]
        return str(self.done[0][1]) + (f", with {'; '.join(tried)} measured" if tried else "")


def _allowed(module: Module) -> bool:
    """Whether a module asserts nothing that does not hold, as far as its sizes are numbers."""
    pairs = (pair for s in module.program.steps if isinstance(s, Assertion) for pair in s.sizes)
    return all(a == b for a, b in pairs if isinstance(a, int) and isinstance(b, int))


def _text(sizes: Measured) -> str:
    return ", ".join(f"{v.name} = {n}" for v, n in sizes.items())

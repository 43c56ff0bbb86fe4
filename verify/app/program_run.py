"""What a run of a program showed (specs/verify.md, "Command line")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from assay.interp.values import Event, Value
from assay.semantics.errors import Trap
from assay.semantics.module import Module
from assay.semantics.types import Type
from assay.verify.app.size_choice import SizeChoice, told_failing
from assay.verify.border.values import from_value, to_arrays
from assay.verify.trials.sizes import Sizes


@dataclass(frozen=True, eq=False)
class ProgramRun:
    """A run of a function of a module: its inputs, its effects, and its results or the trap that ended it; the sizes of
    its symbolic dims, and those of them that were chosen for it."""

    module: Module
    name: str
    inputs: Mapping[str, Value]
    trace: Sequence[Event] = ()
    results: Mapping[str, Value] = field(default_factory=dict)
    trap: Trap | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    chosen: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0
    """Of the inputs that were drawn."""
    redrawn: bool = False
    """Whether that is another one than was asked for."""
    failing: Mapping[str, Sequence[Sizes]] = field(default_factory=dict)
    """The sizes that were tried, by why the program does not run at them, where it runs at none: this is the first of
    these runs."""
    stopped: bool = False
    """Whether the sizes were tried up to the first call of an extern and no further."""

    @property
    def outputs(self) -> dict[str, np.ndarray[Any, Any]]:
        """The results as named arrays. Invalid: one has no form as arrays, such as a function."""
        return to_arrays({n: from_value(v, self.module, f"result {n!r}") for n, v in self.results.items()})


def first_run(choice: SizeChoice[ProgramRun], types: Sequence[Type]) -> ProgramRun:
    """The run at the first sizes that fit; where there are none, the first that was made, which traps. Invalid
    (input.C6): no sizes were found that a run has."""
    found = choice.first()
    if found is not None:
        return found
    if not choice.trapping:
        raise choice.none_found(told_failing(choice.failing), types)
    _, found = next(iter(choice.trapping.values()))
    return replace(found, failing=choice.failing)


def by_name(sizes: Sizes) -> dict[str, int]:
    """Sizes by the names of their symbols."""
    return {s.name: n for s, n in sizes.items()}

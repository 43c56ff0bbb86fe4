"""What passes are handed (specs/lower.md, "Stages"). Each takes a module and returns a new one; none changes its input.

The passes themselves, in order, are in the table of `assay.verify.app.stages`, each beside its check.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from assay.lower.constants import Evaluate
from assay.lower.devices import default_config
from assay.lower.pool import Memory
from assay.lower.simplify.fold import Evaluate as EvaluateGraph
from assay.semantics.compilation import CompilationConfig
from assay.semantics.devices import ANYWHERE, GLOBAL, VirtualDevice
from assay.semantics.module import Module

Pass = Callable[[Module], Module]


@dataclass(frozen=True)
class Settings:
    """What the passes of one run are handed. `run_kernel` runs a tensor function and `evaluate` an expression:
    folding is handed them. `memory` has the pools to plan with, by default one pool without a limit. `config` says
    which devices there are; without it, those that the module names, and one where it names none. `inputs` are those
    given, by name."""

    run_kernel: Evaluate
    evaluate: EvaluateGraph
    memory: Memory | None = None
    config: CompilationConfig | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)

    def apply(self, run: Callable[..., Module], names: tuple[str, ...], /, **more: Any) -> Pass:
        """A pass that takes the settings of these names, and `more`, as keywords."""

        def step(module: Module) -> Module:
            found = {n: self.host(module) if n == "host" else getattr(self, n) for n in names}
            return run(module, **found, **more)

        return step

    @property
    def alignment(self) -> int:
        """The alignment of buffers in bytes."""
        return (self.memory or Memory()).alignment

    def host(self, module: Module) -> VirtualDevice:
        """The device that decides, and its main memory; open where nothing names a device."""
        known = self.config or default_config(module)
        return ANYWHERE if known is None else replace(known.host, scope=GLOBAL)

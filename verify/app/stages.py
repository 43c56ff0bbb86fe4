"""The stages of `assay check` in order: the one table that every driver reads (specs/verify.md, "Stages").

A line has the name of the stage, its pass, and where its check and its description are; its section is the one of
its name in specs/lower.md and specs/verify.md. They are named here and loaded when they are first used, so that the
table itself costs nothing. The checks take modules only: they run alike on a lowering that was just made and on one
that is read from a certificate.
"""

from __future__ import annotations

from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assay.lower.constants import Evaluate
    from assay.lower.pipeline import Pass, Settings
    from assay.lower.pool import Memory
    from assay.semantics.compilation import CompilationConfig
    from assay.semantics.module import Module
    from assay.verify.app.guards import Kept
    from assay.verify.evidence import Context, Did, Evidence


@dataclass(frozen=True)
class Stage:
    """One line of the table. `lower` names the pass, which takes the settings that `given` names; `verify` the module
    with `check`, whether the stage was right, and `describe`, what it did. `kept` is what the stage must leave as it
    is; `skippable` ones may be left out, for what they take is of the form that they give."""

    name: str
    lower: str
    verify: str
    given: tuple[str, ...] = ()
    kept: Kept | None = None
    skippable: bool = False

    def made(self, settings: Settings) -> Pass:
        """The pass of this stage."""
        return settings.apply(resolve_name(self.lower), self.given)

    def check(self, before: Module, after: Module, context: Context) -> Evidence:
        """Whether `after` is what the stage must make of `before`: what is common to all stages first."""
        if self.kept is not None:
            wrong: Evidence | None = resolve_name("assay.verify.app.guards:broken")(
                self.kept, before, after, context.seed
            )
            if wrong is not None:
                return wrong
        found: Evidence = resolve_name(f"{self.verify}:check")(before, after, context)
        return found

    def describe(self, before: Module, after: Module) -> Did:
        """What the stage did."""
        did: Did = resolve_name(f"{self.verify}:describe")(before, after)
        return did


STAGES = (
    Stage("import", "", "assay.verify.frontends"),
    Stage("devices", "assay.lower.devices:plan_devices", "assay.verify.devices", ("config",), "interface"),
    Stage("anf", "assay.lower.anf:to_anf", "assay.verify.anf", (), "interface"),
    Stage("legalize", "assay.lower.legalize:legalize_reachable", "assay.verify.legalize", (), "interface"),
    Stage("fuse", "assay.lower.fuse:fuse", "assay.verify.fuse", (), "interface", skippable=True),
    Stage("constants", "assay.lower.constants:lift_constants", "assay.verify.constants", ("run_kernel",), "kernels"),
    Stage("schedule", "assay.lower.schedule:schedule", "assay.verify.schedule", (), "constants", skippable=True),
    Stage("liveness", "assay.lower.liveness:find_lives", "assay.verify.liveness", ("host", "alignment"), "constants"),
    Stage("pool", "assay.lower.pool:plan", "assay.verify.pool", ("memory",), "constants"),
)
"""The stages that give a module."""
LINES = (*(s.name for s in STAGES), "c", "compare")
"""All lines of `assay check`: the C text and the runs are not modules."""
SKIPPABLE = tuple(s.name for s in STAGES if s.skippable)


def settings(
    run_kernel: Evaluate | None = None, memory: Memory | None = None, config: CompilationConfig | None = None
) -> Settings:
    """The settings of a run: our interpreters, but where another `run_kernel` is given."""
    from assay.interp import vector
    from assay.interp.graph import evaluate
    from assay.lower.pipeline import Settings

    return Settings(run_kernel or vector.run, evaluate, memory, config)


def passes(
    run_kernel: Evaluate | None = None, memory: Memory | None = None, config: CompilationConfig | None = None
) -> dict[str, Pass]:
    """The passes by stage name, in order: made once a run."""
    found = settings(run_kernel, memory, config)
    return {stage.name: stage.made(found) for stage in STAGES if stage.lower}

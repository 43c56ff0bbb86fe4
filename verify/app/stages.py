"""The stages of `assay check` and the optional passes: the one table that every driver reads (specs/verify.md,
"Stages").

A line has a name, its pass, and where its check and its description are; a stage's section is the one of its name in
specs/lower.md and specs/verify.md. They are named here and loaded when they are first used, so that the table itself
costs nothing. The checks take modules only: they run alike on a lowering that was just made and on one that is read
from a certificate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

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
    is; `skippable` ones may be left out, for what they take is of the form that they give. `ensures` and `how`, it is
    checked, are for people.

    An optional pass stands where `--passes` says, between the stages `behind` and `before`; its check is named in full.
    It is handed its `options`, of those that it `takes`, each with its form, and all of them where they are `needed`.
    Where `lower` is `prepared`, it names what makes the pass of settings and options, and refuses those that cannot be
    used."""

    name: str
    lower: str
    verify: str
    ensures: str
    how: str
    given: tuple[str, ...] = ()
    kept: Kept | None = None
    skippable: bool = False
    behind: str = ""
    before: str = ""
    takes: Mapping[str, str] = field(default_factory=dict)
    needed: bool = False
    prepared: bool = False
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def entry(self) -> str:
        """The stage as --passes names it, with its options."""
        options = ";".join(f"{k}={v}" for k, v in self.options.items())
        return f"{self.name}[{options}]" if options else self.name

    def made(self, settings: Settings) -> Pass:
        """The pass of this stage."""
        run = resolve_name(self.lower)
        if self.prepared:
            made: Pass = run(**{n: getattr(settings, n) for n in self.given}, **self.options)
            return made
        return settings.apply(run, self.given, **self.options)

    def check(self, before: Module, after: Module, context: Context) -> Evidence:
        """Whether `after` is what the stage must make of `before`: what is common to all stages first."""
        if self.kept is not None:
            broken = resolve_name("assay.verify.app.guards:broken")
            wrong: Evidence | None = broken(self.kept, before, after, context.seed)
            if wrong is not None:
                return wrong
        place = self.verify if self.behind else f"{self.verify}:check"
        context.options = self.options
        found: Evidence = resolve_name(place)(before, after, context)
        return found

    def describe(self, before: Module, after: Module) -> Did:
        """What the stage did."""
        did: Did = resolve_name(f"{'assay.verify.kept' if self.behind else self.verify}:describe")(before, after)
        return did


STAGES = (
    Stage(
        "import", "", "assay.verify.frontends",
        "typed and well-formed", "every type derived anew",
    ),
    Stage(
        "devices", "assay.lower.devices:plan_devices", "assay.verify.devices",
        "every operand is where its consumer runs", "the rules of plans; without devices it is the source",
        given=("config",), kept="interface",
    ),
    Stage(
        "anf", "assay.lower.anf:to_anf", "assay.verify.anf",
        "every operand atomic, names unique, order explicit", "proved by value numbering", kept="interface",
    ),
    Stage(
        "legalize", "assay.lower.legalize:legalize_reachable", "assay.verify.legalize",
        "no operators left but views", "each tensor function against its operator", kept="interface",
    ),
    Stage(
        "fuse", "assay.lower.fuse:fuse", "assay.verify.fuse",
        "neighbouring calls are one, bit for bit the same", "each group against its calls",
        kept="interface", skippable=True,
    ),
    Stage(
        "constants", "assay.lower.constants:lift_constants", "assay.verify.constants",
        "one read-only table, offsets aligned", "proved by value numbering and z3",
        given=("run_kernel",), kept="kernels",
    ),
    Stage(
        "schedule", "assay.lower.schedule:schedule", "assay.verify.schedule",
        "an order of the calls that needs no more memory", "proved by value numbering; peaks found again",
        kept="constants", skippable=True,
    ),
    Stage(
        "liveness", "assay.lower.liveness:find_lives", "assay.verify.liveness",
        "steps over buffers, each live wherever it is used", "proved by value numbering; lives found again",
        given=("host", "alignment"), kept="constants",
    ),
    Stage(
        "pool", "assay.lower.pool:plan_pools", "assay.verify.pool",
        "no two live buffers share a byte; aligned; inside", "swept, and proved by z3",
        given=("memory",), kept="constants",
    ),
)  # fmt: skip
"""The stages that give a module, in order."""
VM = Stage(
    "vm", "assay.lower.vm:to_bytecode", "assay.verify.vm",
    "registers and storages hold what is read", "proved: each function is its graph function, for every input",
    given=("host",), kept="constants",
)  # fmt: skip
"""The last stage of a lowering to bytecode, in place of those that plan memory."""
TO_BYTECODE = (*(s for s in STAGES if s.name not in ("liveness", "pool")), VM)
"""The stages of a lowering to bytecode, in order."""

SIMPLIFIED = "assay.verify.simplify:check"
PASSES = (
    Stage(
        "bind", "assay.verify.app.passes:bind_inputs", "assay.verify.simplify:check_bound",
        "inputs that are given, or those that `params` names, are constants", "proved by value numbering",
        given=("inputs",), behind="import", before="anf", takes={"params": "NAME,..."}, prepared=True,
    ),
    Stage(
        "inline", "assay.lower.simplify.inline:inline", SIMPLIFIED,
        "calls of small functions, and of those that are called once, are opened", "proved by value numbering",
        kept="interface", behind="import", before="anf",
    ),
    Stage(
        "lift", "assay.lower.simplify.lambda_lift:lift_functions", "assay.verify.simplify:check_lifted",
        "local functions are functions of the module", "proved by value numbering, calls opened",
        kept="interface", behind="import", before="anf",
    ),
    Stage(
        "fold", "assay.lower.simplify.fold:fold_constants", SIMPLIFIED,
        "what is constant is a constant", "proved by value numbering, calls on constants evaluated",
        given=("evaluate",), kept="interface", behind="import", before="anf",
    ),
    Stage(
        "common", "assay.lower.simplify.common_subexpressions:common_subexpressions", SIMPLIFIED,
        "what is computed twice is computed once", "proved by value numbering",
        kept="interface", behind="import", before="schedule",
    ),
    Stage(
        "dead", "assay.lower.simplify.dead_code:dead_code", SIMPLIFIED,
        "what nothing uses, and no run could miss, is gone", "proved by value numbering",
        kept="interface", behind="import", before="schedule",
    ),
    Stage(
        "canonical", "assay.lower.simplify.canonical:canonical_bindings", SIMPLIFIED,
        "no variable is another name for a variable, a known field or its own match-cast", "proved by value numbering",
        kept="interface", behind="import", before="schedule",
    ),
    Stage(
        "plain", "assay.lower.passes:without_dataflow", SIMPLIFIED,
        "no marks of dataflow blocks", "proved by value numbering",
        kept="interface", behind="import", before="schedule",
    ),
    Stage(
        "bbnf", "assay.lower.anf.bbnf:to_bbnf", "assay.verify.anf.bbnf:check",
        "a value that several blocks use is a variable", "the form, and proved by value numbering",
        kept="interface", behind="import", before="anf",
    ),
    Stage(
        "shapes", "assay.lower.shapes:lower_shapes", "assay.verify.shapes:check",
        "every check and computation of sizes is a statement", "proved: each as the rules of sizes ask",
        behind="import", before="legalize",
    ),
    Stage(
        "partition", "assay.verify.app.passes:partition_by", "assay.verify.partition:check",
        "what a table finds is a function for another compiler", "proved by value numbering, regions written out",
        kept="interface", behind="anf", before="legalize", takes={"table": "MODULE:NAME", "compiler": "NAME"},
        needed=True, prepared=True,
    ),
    Stage(
        "recursion", "assay.lower.recursion:frame_recursion", "assay.verify.recursion:check",
        "recursion that is no tail call is a loop over a stack of `depth` frames",
        "proved by value numbering, each part put back",
        kept="interface", behind="anf", before="legalize", takes={"depth": "N"},
    ),
    Stage(
        "tile", "assay.lower.loops.tiles:tile_kernels", "assay.verify.loops:check",
        "products and convolutions add up in small tiles", "each tensor function bit for bit, for every input",
        kept="interface", behind="legalize", before="fuse",
    ),
    Stage(
        "pack", "assay.lower.constants.made:pack_weights", "assay.verify.constants.made:check",
        "constant second operands of products are stored in another layout", "made again; kernels bit for bit",
        given=("evaluate",), kept="interface", behind="legalize", before="fuse", takes={"layout": "transposed|tiles"},
    ),
    Stage(
        "link", "assay.lower.constants:link_params", "assay.verify.constants.link:check",
        "constant arguments are constants inside of tensor functions", "proved by value numbering",
        kept="interface", behind="constants", before="schedule",
    ),
    Stage(
        "unlink", "assay.lower.constants:unlink_params", "assay.verify.constants.link:check",
        "constants inside of tensor functions are arguments again", "proved by value numbering",
        kept="interface", behind="constants", before="schedule",
    ),
    Stage(
        "repeat", "assay.lower.schedule.rematerialise:rematerialise", "assay.verify.schedule:check_repeated",
        "calls are repeated where the peak of memory gets lower", "proved by value numbering; peaks found again",
        kept="constants", behind="constants", before="schedule",
    ),
    Stage(
        "own", "assay.verify.app.passes:run_own", "assay.verify.own:check",
        "what a Python function of yours makes of the module", "proved by value numbering, else run on the inputs",
        kept="interface", behind="import", before="liveness", takes={"run": "MODULE:FUNCTION"},
        needed=True, prepared=True,
    ),
)  # fmt: skip
"""The optional passes."""

RUN_LINES = ("c", "compare")
"""The lines behind the stages: the C text and the runs are not modules."""
LINES = (*(s.name for s in STAGES), *RUN_LINES)
"""All lines of `assay check`, without --vm."""
SKIPPABLE = tuple(s.name for s in STAGES if s.skippable)


def lowering_passes(
    run_kernel: Evaluate | None = None,
    memory: Memory | None = None,
    config: CompilationConfig | None = None,
    stages: Iterable[Stage] = STAGES,
    inputs: Mapping[str, Any] | None = None,
) -> dict[str, Pass]:
    """The passes by stage name, in order, made once a run: with our interpreters, but where another `run_kernel` is
    given."""
    from assay.interp import vector
    from assay.interp.graph import evaluate
    from assay.lower.pipeline import Settings

    found = Settings(run_kernel or vector.run, evaluate, memory, config, inputs or {})
    return {stage.name: stage.made(found) for stage in stages if stage.lower}

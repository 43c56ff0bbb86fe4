"""The main job: a model through every stage, each checked (specs/verify.md, "check").

`CheckRun` runs the lines one after another and stops at the first that does not hold. Where its modules come from is
handed in: a lowering that runs the passes, or a certificate that has them stored. The checks are the same.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from typing import Any, Protocol

import numpy as np
import onnx

from assay.interp import graph
from assay.interp.graph import evaluate
from assay.interp.graph.counting import require_time
from assay.lower.c import CSource, emit
from assay.lower.frontends.flat_main import with_flat_main
from assay.lower.instrument import Instruments
from assay.lower.pipeline import Pass
from assay.lower.pool import Memory
from assay.lower.simplify.settle import BREAKS_A_RULE, settle_sizes, with_dims_of_main
from assay.semantics import budget
from assay.semantics.budget import named
from assay.semantics.compilation import CompilationConfig
from assay.semantics.errors import Invalid, Trap, Unsupported
from assay.semantics.graph import Expr, Function
from assay.semantics.graph.limits import with_limits
from assay.semantics.module import Module
from assay.semantics.types import symbols
from assay.verify.app.arrangement_sizes import sizes_of_arrangements, taken_at
from assay.verify.app.judging import JudgedOutputs
from assay.verify.app.judging_sizes import SizedRun, judged_at_all
from assay.verify.app.passes import RECURSION, passes_for, with_passes, without_pass
from assay.verify.app.size_choice import MOST_SIZES, SizeChoice, asserts, drawn, has_shape_at
from assay.verify.app.stages import SKIPPABLE, VM, Stage, lowering_passes
from assay.verify.app.vm_runs import BytecodeRuns
from assay.verify.border.inputs import complete, import_with, inner_sizes, require_named, sized
from assay.verify.border.onnx_words import table_words
from assay.verify.c import check_c
from assay.verify.c.compiled import Compiled
from assay.verify.compare import Comparison
from assay.verify.evidence import Context, Evidence, unknown
from assay.verify.judge.demanded import demanded
from assay.verify.symbolic import Bounds
from assay.verify.trials.as_compiled import WatchedC
from assay.verify.trials.countable import require_countable
from assay.verify.trials.planned import module_at
from assay.verify.trials.sizes import Sizes, declared_bounds, told_at, told_point, told_sizes

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Line:
    """One line of the table."""

    stage: str
    did: str
    evidence: Evidence
    seconds: float

    def as_data(self) -> dict[str, Any]:
        """The line as plain data, for JSON."""
        return {
            "stage": self.stage,
            "did": self.did,
            "how": self.evidence.how,
            "holds": self.evidence.holds,
            "detail": self.evidence.detail,
            "seconds": round(self.seconds, 3),
            **({"outcome": self.evidence.outcome} if self.evidence.outcome else {}),
            **({"data": self.evidence.data} if self.evidence.data else {}),
        }


class Origin(Protocol):
    """Where the artefacts that are checked come from."""

    def module(self, stage: str, before: Module | None) -> Module:
        """The module that `stage` makes of the one before."""
        ...

    def c_source(self, module: Module) -> CSource:
        """The C that a planned module becomes."""
        ...

    @property
    def passes(self) -> str:
        """The optional passes of the lowering, as --passes names them."""
        ...

    @property
    def vm(self) -> bool:
        """Whether the lowering ends in bytecode; else it does in C."""
        ...

    @property
    def name(self) -> str:
        """What the program is called."""
        ...

    @property
    def tensors(self) -> Mapping[str, Expr]:
        """The model's tensors by name, as nodes of the imported module."""
        ...

    @property
    def config(self) -> CompilationConfig | None:
        """The devices to compile for; None where none are given."""
        ...

    def sized(self, module: Module, sizes: Sizes) -> tuple[Module, Mapping[str, Expr]]:
        """The program at some sizes, and its tensors by name, as nodes of that. Invalid: no run has them. `module` is
        the program after the stage import."""
        ...


@dataclass
class Lowering:
    """Artefacts made now, of an ONNX model or of a module. `changed` replaces passes by stage name, `emitter` the C
    text's: that is how faults are planted."""

    model: onnx.ModelProto | Module
    name: str
    dims: Mapping[str, int] = field(default_factory=dict)
    changed: Mapping[str, Pass] = field(default_factory=dict)
    emitter: Callable[..., CSource] = emit
    source: str = ""
    memory: Memory | None = None
    config: CompilationConfig | None = None
    passes: str = ""
    inputs: Mapping[str, Array] = field(default_factory=dict)
    """Those that are given, which passes may bind."""
    bounds: Bounds = field(default_factory=dict)
    """The least and the greatest value of symbols of main, by name, as far as they are given."""
    tensors: dict[str, Expr] = field(default_factory=dict)
    digest: Callable[[Module], str] | None = None
    """What the C header says of where it comes from, by the imported module."""
    vm: bool = False
    """Whether the lowering ends in bytecode; else it does in C."""
    _digest: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.model, Module) and not self.vm:
            self.passes = passes_for(self.model, self.passes)

    def module(self, stage: str, before: Module | None) -> Module:
        """Run the pass of `stage`; the first module, before any pass, is digested if a digest is wanted."""
        made = self._module(stage, before)
        if before is None and self.digest is not None:
            self._digest["digest"] = self.digest(made)
        return made

    def _module(self, stage: str, before: Module | None) -> Module:
        made = self.made  # options of passes that cannot be used are refused before any work
        if before is None:
            self.tensors.clear()
            if isinstance(self.model, Module):
                imported = with_flat_main(settle_sizes(sized(self.model, self.dims)))
            else:
                imported = self.imported(self.model, self.dims, self.tensors)
            if self.bounds:
                known = [s.name for p in imported.main.params for s in symbols(p.type)]
                unknown = [n for n in self.bounds if n not in known]
                if unknown and self.vm:
                    what = f"{unknown[0]} is no size of the inputs, and bytecode has room for any size that a run tells"
                    raise Invalid(what, label="limits.C4")
                told = inner_sizes(imported) if unknown else set()
                asked = [n for n in unknown if re.sub(r"^.*[.]|_[0-9]+$", "", n) not in told]
                require_named([*known, *self.dims, *sorted(told)], asked, "main")
                imported = imported.with_(main=with_limits(imported.main, self.bounds))
            return self.changed["import"](imported) if "import" in self.changed else imported
        return made[stage](before)

    def sized(self, module: Module, sizes: Sizes) -> tuple[Module, Mapping[str, Expr]]:
        """The program at some sizes: what is lowered with numbers from the start, where it is a model."""
        if isinstance(self.model, Module):
            return program_at(module, sizes)
        tensors: dict[str, Expr] = {}
        dims = {**self.dims, **{s.name: n for s, n in sizes.items()}}
        return self.imported(self.model, dims, tensors), tensors

    def imported(self, model: onnx.ModelProto, dims: Mapping[str, int], tensors: dict[str, Expr]) -> Module:
        """An ONNX model as a module, its tensors by name in `tensors`."""
        tensors.clear()
        return import_with(self.inputs, model=model, evaluate=evaluate, dims=dims, source=self.source, tensors=tensors)

    @cached_property
    def made(self) -> Mapping[str, Pass]:
        """The passes of this run by stage name."""
        stages = with_passes(self.passes, self.vm)
        found = lowering_passes(memory=self.memory, config=self.config, stages=stages, inputs=self.inputs)
        return {**found, **self.changed}

    def c_source(self, module: Module) -> CSource:
        """Print the module as C, with the model's digest in it if there is one."""
        return self.emitter(module, self.name, **self._digest)


def program_at(module: Module, sizes: Sizes) -> tuple[Module, Mapping[str, Expr]]:
    """A program with numbers for the symbols of main, without names of tensors. Invalid: no run has these sizes."""
    return with_dims_of_main(module, sizes, evaluate), {}


@dataclass
class CheckRun:
    """One run of the main job. Iterate over `lines()`; afterwards the artefacts are in the fields."""

    origin: Origin
    given: Mapping[str, Array] = field(default_factory=dict)
    seed: int = 0
    judged: list[JudgedOutputs] = field(default_factory=list)
    defaults: Mapping[str, Array] = field(default_factory=dict)
    """What was given for inputs of the model that have a default: constants of the program by now."""
    kept: Mapping[str, Array] = field(default_factory=dict)
    """What the first run took when a certificate was made: it takes the same again, whatever is drawn by now."""
    progress: Callable[[str, int, int], None] = lambda stage, done, total: None
    modules: dict[str, Module] = field(default_factory=dict)
    queries: dict[str, str] = field(default_factory=dict)
    inputs: dict[str, Array] = field(default_factory=dict)
    outputs: dict[str, Array] = field(default_factory=dict)
    source: CSource | None = None
    at: str = ""
    """The line that is being made, and when it was begun."""
    began: float = 0.0
    instruments: Instruments = field(default_factory=Instruments)
    """What looks on while the stages run; the lines of our own stop after the line `stop_after`."""
    stop_after: str = ""
    runs: list[SizedRun] = field(default_factory=list)
    """Those to be made: one, or where sizes are symbols one for each choice of sizes."""
    left_out: list[str] = field(default_factory=list)
    """Sizes of interest that no run has, and why."""
    late: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of the constants of bytecode that are to be bound late."""
    or_bytecode: bool = False
    """Whether the lowering goes to bytecode where no plan can have the program."""
    thorough: bool = False  # whether what takes minutes is proved too
    keeps: bool = True  # and whether the texts of these proofs are kept
    unplanned: str = ""  # why it did

    def lines(self) -> Iterator[Line]:
        """The table, line by line, up to the first that does not hold. Where a stage cannot take the program and
        outputs are judged, that is a line too and they are judged all the same, as they are after `stop_after`: it
        needs no lowering.
        """
        for other in self.judged:
            other.begin()
        try:
            with self.instruments:
                held = yield from self._lines()
        except Unsupported as wrong:
            if not self.judged or not self.runs:
                raise
            yield self.line("", unknown("checked", str(wrong), "refused"))
            held = True
        if not held:
            return
        for other in self.judged:
            self.begin(other.name)
            yield self.line(*judged_at_all(other, self.runs, self.given))

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """The stages of the lowering, optional passes among them."""
        return with_passes(self.origin.passes, self.origin.vm)

    def evidence(self, stage: Stage, before: Module, module: Module) -> Evidence:
        """What the check of a stage says."""
        context = Context(self.seed, partial(self.progress, stage.name), self.queries, self.origin.config)
        context.inputs, context.thorough, context.keeps = self.inputs, self.thorough, self.keeps
        return stage.check(before, module, context)

    def begin(self, line: str) -> None:
        """Say which line is being made from now on."""
        self.at, self.began = line, time.perf_counter()
        self.progress(line, 0, 0)

    def line(self, did: str, evidence: Evidence) -> Line:
        """The line that was begun."""
        return Line(self.at, did, evidence, time.perf_counter() - self.began)

    def choose_runs(self, module: Module) -> None:
        """Inputs for the program after the stage import: where its sizes are symbols, at some sizes that its own
        constraints allow and at which it does not trap on the inputs there, as far as there are such. Invalid
        (input.C6): no sizes were found."""
        main = module.main
        free = dict.fromkeys(s for p in main.params for s in symbols(p.type))
        if not free:
            require_time(main, module)
            inputs = self.drawn(module, self.given)[0] if asserts(module) else complete(main, self.given, self.seed)
            self.runs = [SizedRun({}, module, self.origin.tensors, self.as_kept(inputs))]
            return

        choice = SizeChoice(tuple(free), declared_bounds(main), lambda sizes: self.tried(module, sizes), module)
        found, left_out = choice.all()
        self.left_out = choice.told(left_out)
        if found:
            self.runs = [replace(found[0], inputs=self.as_kept(found[0].inputs)), *found[1:]]
        elif choice.trapping:  # whatever the sizes are; it is lowered, and compare says so
            self.runs = [run for _, run in choice.trapping.values()][:1]
        else:
            raise choice.none_found("; ".join(self.left_out), [p.type for p in main.params])

    def tried(self, module: Module, sizes: Sizes) -> tuple[SizedRun, Trap | None]:
        """The program at some sizes on inputs that are given or drawn, and how it traps on them, if it does. Invalid:
        no run has these sizes. Where only the model that it came from has none, the run says so: what is said of sizes
        has to be the same of a certificate, which has no model."""
        plain, tensors = program_at(module, sizes)
        there, refused = plain, ""
        try:
            there, tensors = self.origin.sized(module, sizes)
        except Invalid as wrong:
            refused = wrong.message.rpartition(BREAKS_A_RULE)[2]
        require_time(there.main, there)
        inputs, trap = self.drawn(there, self.given_at(module.main, sizes))
        if trap is not None and there is not plain:
            try:
                graph.run(plain, inputs)
            except Trap as same:
                trap = same  # in the words of what a certificate has
        return SizedRun(sizes, there, tensors, inputs, refused), trap

    def as_kept(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """What was kept in place of inputs, where it has their shapes."""
        shapes = [{n: (a.dtype, np.shape(a)) for n, a in some.items()} for some in (inputs, self.kept)]
        return {n: self.kept[n] for n in inputs} if shapes[0] == shapes[1] else inputs

    def drawn(self, module: Module, given: Mapping[str, Array]) -> tuple[dict[str, Array], Trap | None]:
        """Inputs, and how the program traps on them, if it does. What it asserts of them holds."""
        asserted = demanded(module, given, self.seed)

        def attempt(seed: int) -> tuple[dict[str, Array], Trap | None]:
            rng = np.random.default_rng([seed, 1])
            inputs = complete(module.main, {**given, **{n: d.drawn(rng) for n, d in asserted.items()}}, seed)
            try:
                graph.run(module, inputs)
            except Trap as trap:
                return inputs, trap
            except Invalid as wrong:
                if wrong.label != "extern.C1":
                    raise  # else nobody defines an extern here, so nobody knows how the program ends
            return inputs, None

        inputs, _, trap = drawn(attempt, self.seed, set(given) < {p.name for p in module.main.params})
        return inputs, trap

    def given_at(self, main: Function, sizes: Sizes) -> dict[str, Array]:
        """What is given that has these sizes."""
        types = {p.name: p.type for p in main.params}
        return {n: a for n, a in self.given.items() if has_shape_at(types.get(n), np.shape(a), sizes)}

    def _lines(self) -> Generator[Line, None, bool]:
        """The lines of our own, up to `stop_after`; whether all of them hold."""
        before: Module | None = None
        done: set[str] = set()
        while left := [s for s in self.stages if s.name not in done]:
            stage = left[0]
            self.begin(stage.name)
            with named(f"the stage {stage.name}"):
                try:
                    step = partial(self.origin.module, stage.name)
                    module = self.instruments.run(stage.name, step, before, SKIPPABLE)
                except Unsupported as wrong:
                    self.go_to_bytecode(stage, wrong)
                    continue
                self.modules[stage.name] = module
                done.add(stage.name)
                if stage.name in ("import", "legalize"):  # where values and buffers come in
                    require_countable(module)
                if before is None:
                    self.choose_runs(module)
                    self.inputs = dict(self.runs[0].inputs)
                    for other in self.judged:
                        other.require_readable(module)
                evidence = self.evidence(stage, before or module, module)
                did, numbers = stage.describe(before or module, module) if evidence.holds else ("", {})
                said = [did, f"no plan can have it: {self.unplanned}" if stage is VM and self.unplanned else ""]
                if before is None:
                    said += table_words(module.main.attrs)
                did = "; ".join(filter(None, said))
                if before is None and self.defaults:
                    did = f"{did}; given in place of a default: {', '.join(self.defaults)}"
                    evidence.data["defaults"] = list(self.defaults)
            evidence.data.update(numbers)
            yield self.line(did, evidence)
            if not evidence.holds:
                return False
            if stage.name == self.stop_after:
                return True
            before = module
        assert before is not None
        return (yield from self.run_lines(before))

    def go_to_bytecode(self, stage: Stage, why: Unsupported) -> None:
        """The rest of the lowering ends in bytecode, if this stage is one of those to a plan; else it is not taken."""
        lowering = self.origin
        if not self.or_bytecode or stage.name not in (RECURSION, "liveness") or not isinstance(lowering, Lowering):
            raise why
        self.unplanned = str(why)
        self.origin = replace(lowering, vm=True, passes=without_pass(lowering.passes, RECURSION))
        del self.stages

    def run_lines(self, planned: Module) -> Generator[Line, None, bool]:
        """The lines that run: C and compare."""
        if self.origin.vm:
            return (yield from self.bytecode_lines(self.modules[self.stages[-2].name], planned))
        self.begin("c")
        self.source = self.origin.c_source(planned)
        watched = WatchedC(self.source)
        try:
            if self.stop_after != "c":
                watched.begin("traced")
            texts = self.queries if self.thorough and self.keeps else None
            did, evidence, native = check_c(self.source, planned, texts)
            yield self.line(did, evidence)
            if native is None or self.stop_after == "c":
                return native is not None
            self.begin("compare")
            with named("the stage compare"):
                did, evidence = self.compare(planned, watched, native)
        finally:
            watched.abandon()
        yield self.line(did, evidence)
        return bool(evidence.holds)

    def bytecode_lines(self, before: Module, module: Module) -> Generator[Line, None, bool]:
        """The line compare of bytecode."""
        self.begin("compare")
        told = partial(self.progress, "compare")
        ran = BytecodeRuns(before, module, self.runs, told, self.seed, tuple(self.left_out))
        with named("the stage compare"):
            did, evidence = ran.compare()
        self.outputs = ran.outputs
        yield self.line(did, evidence)
        return bool(evidence.holds)

    def compare(self, planned: Module, watched: WatchedC, native: Compiled) -> tuple[str, Evidence]:
        """The line compare: the first run that does not hold, else what was found in the first of all."""
        found, ran = [], []
        small = Invalid("")
        others, missing = self.runs_of_arrangements(planned)
        for run in (*self.runs, *others):
            comparison = Comparison(
                run.module, module_at(planned, run.inputs), watched.source, native, run.inputs, run.expected,
                partial(self.progress, "compare"), self.seed, watched,
            )  # fmt: skip
            try:
                with budget.while_doing(told_at(run.sizes)):
                    did, evidence = comparison.run()
            except Invalid as wrong:
                if wrong.label != "room.C1" or not run.sizes:
                    raise
                small = wrong
                self.left_out.append(f"not run at {told_point(run.sizes)}: {wrong.message}")
                continue
            if not run.sizes:
                self.outputs = comparison.outputs
                return did, evidence
            if not evidence.holds:
                return "", replace(evidence, detail=f"at {told_point(run.sizes)}: {evidence.detail}")
            self.outputs = self.outputs or comparison.outputs
            found.append((did, evidence))
            ran.append(run)
        if not found:
            raise small
        did, evidence = found[0]
        more = {id(r) for r in others}
        usual = [r.sizes for r in ran if id(r) not in more]
        where = [*([told_sizes(usual)] if usual else []), *(told_point(r.sizes) for r in ran if id(r) in more)]
        return "; ".join([did, f"at {' and at '.join(where)}", *self.left_out, *missing]), evidence

    def runs_of_arrangements(self, planned: Module) -> tuple[list[SizedRun], list[str]]:
        """A run for each arrangement of the plan that no other run takes; and what is said of those for which no sizes
        were found."""
        program = planned.program
        met = [taken_at(program, {v.name: n for v, n in run.sizes.items()}) for run in self.runs if run.sizes]
        found: list[SizedRun] = []
        missing: list[str] = []
        for k, points in sizes_of_arrangements(program, met) if met else ():
            run = next((r for r in map(self.run_at, islice(points, MOST_SIZES)) if r is not None), None)
            found += [run] if run is not None else []
            missing += [f"no small sizes found that take arrangement {k} of the plan"] if run is None else []
        return found, missing

    def run_at(self, named: Mapping[str, int]) -> SizedRun | None:
        """A run at sizes by name; None: the program cannot run there, or traps on the inputs tried."""
        module = self.modules[self.stages[0].name]
        try:
            run, trap = self.tried(module, {v: named[v.name] for v in self.runs[0].sizes if v.name in named})
        except Invalid:
            return None
        return run if trap is None else None

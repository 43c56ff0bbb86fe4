"""The main job: a model through every stage, each checked (specs/verify.md, "check").

`CheckRun` runs the lines one after another and stops at the first that does not hold. Where its modules come from is
handed in: a lowering that runs the passes, or a certificate that has them stored. The checks are the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
import onnx

from assay.interp.graph import evaluate
from assay.interp.graph.counting import require_time
from assay.lower.c import CSource, emit
from assay.lower.frontends.flat_main import with_flat_main
from assay.lower.frontends.onnx.model import import_onnx
from assay.lower.instrument import Instruments
from assay.lower.pipeline import Pass
from assay.lower.pool import Memory
from assay.lower.simplify.settle import settle_sizes, with_dims_of_main
from assay.semantics.budget import named
from assay.semantics.compilation import CompilationConfig
from assay.semantics.errors import Unsupported
from assay.semantics.graph import Expr
from assay.semantics.module import Module
from assay.verify.app.judging import JudgedOutputs, judge_outputs
from assay.verify.app.passes import with_passes
from assay.verify.app.stages import SKIPPABLE, Stage, lowering_passes
from assay.verify.border.inputs import complete, dims_of
from assay.verify.c import check_c
from assay.verify.compare import Comparison
from assay.verify.evidence import Context, Evidence, unknown
from assay.verify.oracle import Expected
from assay.verify.trials.countable import require_countable

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
    def tensors(self) -> Mapping[str, Expr]:
        """The model's tensors by name, as nodes of the imported module."""
        ...

    @property
    def config(self) -> CompilationConfig | None:
        """The devices to compile for; None where none are given."""
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
    tensors: dict[str, Expr] = field(default_factory=dict)
    digest: Callable[[Module], str] | None = None
    """What the C header says of where it comes from, by the imported module."""
    _digest: dict[str, str] = field(default_factory=dict)

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
                imported = import_onnx(
                    self.model, evaluate=evaluate, dims=self.dims, source=self.source, tensors=self.tensors
                )
            return self.changed["import"](imported) if "import" in self.changed else imported
        return made[stage](before)

    @cached_property
    def made(self) -> Mapping[str, Pass]:
        """The passes of this run by stage name."""
        stages = with_passes(self.passes)
        found = lowering_passes(memory=self.memory, config=self.config, stages=stages, inputs=self.inputs)
        return {**found, **self.changed}

    def c_source(self, module: Module) -> CSource:
        """Print the module as C, with the model's digest in it if there is one."""
        return self.emitter(module, self.name, **self._digest)


def sized(module: Module, dims: Mapping[str, int]) -> Module:
    """The module with numbers for symbols of its main. Invalid: there is no symbol of that name (check.C1); the program
    breaks a rule at these numbers."""
    return with_dims_of_main(module, dims_of(module.main, dims), evaluate) if dims else module


@dataclass
class CheckRun:
    """One run of the main job. Iterate over `lines()`; afterwards the artefacts are in the fields."""

    origin: Origin
    given: Mapping[str, Array] = field(default_factory=dict)
    seed: int = 0
    judged: list[JudgedOutputs] = field(default_factory=list)
    defaults: Mapping[str, Array] = field(default_factory=dict)
    """What was given for inputs of the model that have a default: constants of the program by now."""
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

    def lines(self) -> Iterator[Line]:
        """The table, line by line, up to the first that does not hold. Where a stage cannot take the program and
        outputs are judged, that is a line too and they are judged all the same, as they are after `stop_after`: it
        needs no lowering.
        """
        try:
            with self.instruments:
                expected = yield from self._lines()
        except Unsupported as wrong:
            if not self.judged or "import" not in self.modules:
                raise
            yield self.line("", unknown("checked", str(wrong), "refused"))
            expected = Expected(self.modules["import"], self.inputs)
        if expected is None:
            return
        for other in self.judged:
            self.begin(other.name)
            yield self.line(*judge_outputs(other, expected, self.origin.tensors))

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """The stages of the lowering, optional passes among them."""
        return with_passes(self.origin.passes)

    def begin(self, line: str) -> None:
        """Say which line is being made from now on."""
        self.at, self.began = line, time.perf_counter()
        self.progress(line, 0, 0)

    def line(self, did: str, evidence: Evidence) -> Line:
        """The line that was begun."""
        return Line(self.at, did, evidence, time.perf_counter() - self.began)

    def _lines(self) -> Generator[Line, None, Expected | None]:
        """The lines of our own, up to `stop_after`; what may come of the inputs, where all of them hold."""
        before: Module | None = None
        for stage in self.stages:
            self.begin(stage.name)
            with named(f"the stage {stage.name}"):
                module = self.instruments.run(stage.name, partial(self.origin.module, stage.name), before, SKIPPABLE)
                self.modules[stage.name] = module
                if stage.name in ("import", "legalize"):  # where values and buffers come in
                    require_countable(module)
                if before is None:
                    require_time(module.main, module)
                    self.inputs = complete(module.main, self.given, self.seed)
                    for other in self.judged:
                        other.require_readable(module)
                context = Context(self.seed, partial(self.progress, stage.name), self.queries, self.origin.config)
                context.inputs = self.inputs
                evidence = stage.check(before or module, module, context)
                did, numbers = stage.describe(before or module, module) if evidence.holds else ("", {})
                if before is None and self.defaults:
                    did = "; ".join(filter(None, [did, f"given in place of a default: {', '.join(self.defaults)}"]))
                    evidence.data["defaults"] = list(self.defaults)
            evidence.data.update(numbers)
            yield self.line(did, evidence)
            if not evidence.holds:
                return None
            if stage.name == self.stop_after:
                return Expected(self.modules["import"], self.inputs)
            before = module
        assert before is not None
        return (yield from self.run_lines(before))

    def run_lines(self, planned: Module) -> Generator[Line, None, Expected | None]:
        """The lines that run: C and compare."""
        self.begin("c")
        self.source = self.origin.c_source(planned)
        did, evidence, native = check_c(self.source)
        yield self.line(did, evidence)
        if native is None:
            return None
        if self.stop_after == "c":
            return Expected(self.modules["import"], self.inputs)
        self.begin("compare")
        comparison = Comparison(
            self.modules["import"], planned, self.source, native, self.inputs, self.origin.tensors,
            partial(self.progress, "compare"), self.seed,
        )  # fmt: skip
        with named("the stage compare"):
            did, evidence = comparison.run()
        self.outputs = comparison.outputs
        yield self.line(did, evidence)
        return comparison.expected if evidence.holds else None

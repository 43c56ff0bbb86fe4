"""The main job: a model through every stage, each checked (specs/verify.md, "check").

`Check` runs the lines one after another and stops at the first that does not hold. Where its modules come from is
handed in: a lowering that runs the passes, or a certificate that has them stored. The checks are the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np
import onnx

from assay.interp import vector
from assay.interp.graph import evaluate
from assay.lower.c import CSource, emit
from assay.lower.onnx_import import import_onnx
from assay.lower.pipeline import Pass, passes
from assay.lower.pool import Memory
from assay.lower.simplify.bind_params import with_sizes
from assay.semantics.compilation import CompilationConfig
from assay.semantics.graph import Expr
from assay.semantics.module import Module
from assay.verify.backends import Backend, backend
from assay.verify.compare import Comparison, check_c
from assay.verify.evidence import Evidence
from assay.verify.inputs import complete, dims_of
from assay.verify.stages import STAGES, Context

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Line:
    """One line of the table."""

    stage: str
    did: str
    evidence: Evidence
    seconds: float

    def as_data(self) -> dict[str, Any]:
        return {
            "stage": self.stage,
            "did": self.did,
            "how": self.evidence.how,
            "holds": self.evidence.holds,
            "detail": self.evidence.detail,
            "seconds": round(self.seconds, 3),
            **({"data": self.evidence.data} if self.evidence.data else {}),
        }


class Origin(Protocol):
    """Where the artefacts that are checked come from."""

    def module(self, stage: str, before: Module | None) -> Module:
        """The module that `stage` makes of the one before."""
        ...

    def c_source(self, module: Module) -> CSource: ...

    @property
    def tensors(self) -> Mapping[str, Expr]:
        """The model's tensors by name, as nodes of the imported module."""
        ...

    @property
    def config(self) -> CompilationConfig | None:
        """The devices that there are; None where nobody said."""
        ...


@dataclass
class Lowering:
    """Artefacts made now, of an ONNX model or of a module. `changed` replaces passes by stage name, `emitter` the C text's:
    that is how faults are planted."""

    model: onnx.ModelProto | Module
    name: str
    dims: Mapping[str, int] = field(default_factory=dict)
    changed: Mapping[str, Pass] = field(default_factory=dict)
    emitter: Callable[..., CSource] = emit
    source: str = ""
    memory: Memory | None = None
    config: CompilationConfig | None = None
    tensors: dict[str, Expr] = field(default_factory=dict)

    def module(self, stage: str, before: Module | None) -> Module:
        if before is None:
            self.tensors.clear()
            if isinstance(self.model, Module):
                imported = sized(self.model, self.dims)
            else:
                imported = import_onnx(
                    self.model, evaluate=evaluate, dims=self.dims, source=self.source, tensors=self.tensors
                )
            return self.changed["import"](imported) if "import" in self.changed else imported
        return {**passes(vector.run, self.memory, self.config), **self.changed}[stage](before)

    def c_source(self, module: Module) -> CSource:
        return self.emitter(module, self.name)


def sized(module: Module, dims: Mapping[str, int]) -> Module:
    """The module with numbers for symbols of its main. Invalid (check.C1): there is no symbol of that name."""
    return module.with_(main=with_sizes(module.main, dict(dims_of(module.main, dims).items()))) if dims else module


@dataclass
class Judged:
    """Somebody else's outputs; or a backend, the one of that name by default, on the model or the module exported."""

    name: str
    model: onnx.ModelProto | None = None
    outputs: Mapping[str, Array] | None = None
    backend: Backend | None = None


@dataclass
class Check:
    """One run of the main job. Iterate over `lines()`; afterwards the artefacts are in the fields."""

    origin: Origin
    given: Mapping[str, Array] = field(default_factory=dict)
    seed: int = 0
    judged: list[Judged] = field(default_factory=list)
    progress: Callable[[str, int, int], None] = lambda stage, done, total: None
    modules: dict[str, Module] = field(default_factory=dict)
    queries: dict[str, str] = field(default_factory=dict)
    inputs: dict[str, Array] = field(default_factory=dict)
    outputs: dict[str, Array] = field(default_factory=dict)
    source: CSource | None = None

    def lines(self) -> Iterator[Line]:
        """The table, line by line, up to the first that does not hold."""
        before: Module | None = None
        for stage in STAGES:
            start = time.perf_counter()
            self.progress(stage.name, 0, 0)
            module = self.origin.module(stage.name, before)
            self.modules[stage.name] = module
            if before is None:
                self.inputs = complete(module.main, self.given, self.seed)
            context = Context(self.seed, partial(self.progress, stage.name), self.queries, self.origin.config)
            evidence = stage.check(before or module, module, context)
            did, numbers = stage.describe(before or module, module) if evidence.holds else ("", {})
            evidence.data.update(numbers)
            yield Line(stage.name, did, evidence, time.perf_counter() - start)
            if not evidence.holds:
                return
            before = module
        assert before is not None
        yield from self.run_lines(before)

    def run_lines(self, planned: Module) -> Iterator[Line]:
        """The lines that run: C, compare, and everybody who is judged."""
        start = time.perf_counter()
        self.progress("c", 0, 0)
        self.source = self.origin.c_source(planned)
        did, evidence, native = check_c(self.source)
        yield Line("c", did, evidence, time.perf_counter() - start)
        if native is None:
            return
        start = time.perf_counter()
        comparison = Comparison(
            self.modules["import"], planned, self.source, native, self.inputs, self.origin.tensors,
            partial(self.progress, "compare"),
        )  # fmt: skip
        did, evidence = comparison.run()
        self.outputs = comparison.outputs
        yield Line("compare", did, evidence, time.perf_counter() - start)
        if not evidence.holds:
            return
        for other in self.judged:
            start = time.perf_counter()
            self.progress(other.name, 0, 0)
            if other.outputs is not None:
                did, evidence = comparison.judge(other.outputs)
            else:
                did, evidence = comparison.judge_backend(other.backend or backend(other.name), other.model)
            yield Line(other.name, did, evidence, time.perf_counter() - start)

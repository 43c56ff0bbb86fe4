"""Who is judged in a campaign, and what came of one example (specs/verify.md, "Fuzzing").

A target is a backend (`assay.verify.backends`), or one of ours: `passes` takes each example through every stage of
`assay check`, with the stage's own check, and runs the plan on the machine; `values` judges the operators' own NumPy
values by the bounds.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import onnx

from assay.interp import graph, machine
from assay.semantics.dtypes import dtype
from assay.semantics.errors import AssayError, Crash, Invalid, Trap, Unpredictable, Unsupported
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.verify.app.passes import passes_for, with_passes
from assay.verify.app.stages import lowering_passes
from assay.verify.backends import (
    Backend,
    Isolated,
    backend,
    names as backend_names,
    subject_of_model,
    subject_of_module,
)
from assay.verify.backends.catalogue import split_place
from assay.verify.backends.declared import declared_by
from assay.verify.backends.in_process import InProcess
from assay.verify.backends.ort import OnnxRuntime
from assay.verify.backends.protocol import FATAL, OUTCOMES, Crashed
from assay.verify.backends.registry import is_place, of_ours, require_address
from assay.verify.evidence import Context
from assay.verify.fuzz.onnx_names import undeclared
from assay.verify.judge.run import of_the_whole
from assay.verify.oracle import Oracle, Verdict, judge_backend
from assay.verify.oracle.trial import AGAIN, Oracles

GOOD = ("right", "open", "undecided", "unpredictable", "unsaid", "refused")
FAILURES = ("wrong", "implausible", "crash", "died", "late")


@dataclass(frozen=True)
class Result:
    """What came of one example.

    `kind`: right, open, undecided and unpredictable are the oracle's words; unsaid, ONNX or a stage has no word for the
    program; refused, the backend cannot run it. Failures are wrong, crash (a fault of ours), died (the process) and
    late (its time). `where` is the layer or stage, `culprit` the operator, if that is known.
    """

    kind: str
    where: str = ""
    culprit: str = ""
    detail: str = ""

    @property
    def failed(self) -> bool:
        """Whether this is a failure to report."""
        return self.kind in FAILURES

    @property
    def key(self) -> tuple[str, str, str]:
        """Failures of one key are likely the same fault."""
        return self.kind, self.where, self.culprit

    def as_data(self) -> dict[str, str]:
        """The result as plain data, for JSON."""
        return asdict(self)


Program: TypeAlias = Module | onnx.ModelProto
"""What is judged."""


def module_of(program: Program) -> Module:
    """The program as a module."""
    return program if isinstance(program, Module) else subject_of_model(program).module


class Target(Protocol):
    """An implementation that is judged. `judge` may raise whatever a program can cause."""

    @property
    def name(self) -> str:
        """The name of what is judged."""
        ...

    def judge(self, module: Program, inputs: Mapping[str, Any]) -> Result:
        """Run the program on the inputs and judge what comes of it."""
        ...


def from_verdict(verdict: Verdict) -> Result:
    """A verdict of the oracle as a result."""
    culprit = (verdict.culprit or "").partition(",")[0]
    return Result(verdict.outcome, verdict.layer, culprit, verdict.detail)


@dataclass
class Latest:
    """The program that was judged last, as subject and oracles, or why it has no words: the next backend is judged on
    the same one."""

    program: Program | None = None
    posed: Oracles | Unsupported = field(default_factory=lambda: Unsupported("nothing was judged"))

    def of(self, program: Program) -> Oracles:
        """The program's. Unsupported: ONNX has no words for it."""
        if self.program is not program:
            try:
                self.posed = Oracles(
                    subject_of_module(program) if isinstance(program, Module) else subject_of_model(program)
                )
            except Unsupported as wrong:
                self.posed = wrong
            self.program = program
        if isinstance(self.posed, Unsupported):
            raise self.posed
        return self.posed


@dataclass(frozen=True)
class BackendTarget:
    """A backend, on the program as ONNX. Those that are judged on the same programs share the `latest` of these."""

    backend: Backend
    latest: Latest = field(default_factory=Latest, compare=False)

    @property
    def name(self) -> str:
        """The name of the backend."""
        return self.backend.name

    @property
    def undeclared(self) -> tuple[str, ...]:
        """The operators of ours that it does not take, by what it declares of itself."""
        operators = declared_by(of_ours(self.name) or self.backend, self.name).operators
        return () if operators is None else undeclared(operators)

    def judge(self, module: Program, inputs: Mapping[str, Any]) -> Result:
        """Judge the backend on the module as ONNX; a module that ONNX cannot say, or that it refuses, is no failure."""
        try:
            oracles = self.latest.of(module)
        except Unsupported as wrong:
            return Result("unsaid", wrong.label, "", wrong.message)
        try:
            verdict = judge_backend(oracles.subject, self.backend, inputs, oracles=oracles)
            again = verdict.detail.startswith(AGAIN)
            found = None if again else of_the_whole(oracles.subject, self.backend, inputs, verdict)
            if found is not None:
                return Result(found.outcome, "pieces", "", f"{found.closing()}; by itself: {verdict.detail}")
            return from_verdict(verdict)
        except AssayError as wrong:
            if wrong.label in FATAL:
                where = wrong.key if isinstance(wrong, Crashed) else wrong.label
                return Result(OUTCOMES[wrong.label], where, "", wrong.message)
            if wrong.label.startswith("backend."):
                return Result("refused", wrong.label, "", wrong.message)
            raise


@dataclass(frozen=True)
class Values:
    """The operators' own values: NumPy, each within its bound."""

    name: str = "values"

    def judge(self, module: Program, inputs: Mapping[str, Any]) -> Result:
        """Judge the interpreter's outputs, or its trap, by the oracle."""
        module = module_of(module)
        check(module)
        outputs: Any
        try:
            outputs = graph.run(module, inputs)
        except Trap as trap:
            outputs = trap
        except Unpredictable as why:
            return Result("unpredictable", why.label, "", why.message)
        return from_verdict(Oracle(module).judge(inputs, outputs))


@dataclass(frozen=True)
class Stages:
    """Our passes: each stage by its own check, and the plan on the machine by the oracle."""

    name: str = "passes"

    def judge(self, module: Program, inputs: Mapping[str, Any]) -> Result:
        """Lower stage by stage with the check of each, then judge the machine's outputs by the oracle."""
        module = module_of(module)
        stages = with_passes(passes_for(module, ""))
        made, context = lowering_passes(stages=stages), Context()
        before = module
        for stage in stages:
            try:
                after = made[stage.name](before) if stage.name in made else before
            except Unsupported as wrong:
                return Result("unsaid", wrong.label, "", f"{stage.name}: {wrong.message}")
            evidence = stage.check(before, after, context)
            if not evidence.holds:
                return Result("undecided" if evidence.holds is None else "wrong", stage.name, "", evidence.detail)
            before = after
        outputs: Any
        try:
            outputs = machine.run(before, inputs)
        except Trap as trap:
            outputs = trap
        return from_verdict(Oracle(module).judge(inputs, outputs))


OURS: dict[str, Target] = {"passes": Stages(), "values": Values()}


def target_names() -> list[str]:
    """All that can be judged."""
    return [*OURS, *(n for n in backend_names() if n not in OURS)]


def require_target(name: str) -> None:
    """Invalid (fuzz.C1): nobody of that name can be judged."""
    if split_place(name)[1]:
        require_address(name)
    elif name not in OURS and of_ours(name) is None and name not in backend_names() and not is_place(name):
        raise Invalid(f"no backend {name!r} to judge; there are {', '.join(target_names())}", label="fuzz.C1")


def target(name: str, patience: float = 60.0) -> Target:
    """The target of that name, in this process; on another machine, where its name says so, and then `patience` as of
    `target_apart`. Invalid (fuzz.C1): there is none."""
    if split_place(name)[1]:
        return target_apart(name, patience)
    require_target(name)
    if name in OURS:
        return OURS[name]
    found = backend(name)
    if isinstance(found, OnnxRuntime):
        return BackendTarget(replace(found, threads=1))
    return BackendTarget(InProcess(found) if of_ours(name) is None else found)


_processes: dict[tuple[str, float], Isolated] = {}
"""The backends that have a process of their own beside this one."""


def target_apart(name: str, patience: float, latest: Latest | None = None) -> Target:
    """The same; a backend in a process of its own, which stays for the next call, and which may take `patience` seconds
    for an answer."""
    require_target(name)
    if name in OURS:
        return OURS[name]
    process = _processes.setdefault((name, patience), Isolated(name, patience))
    return BackendTarget(process, latest or Latest())


def targets_of(names: Sequence[str], patience: float) -> list[Target]:
    """The targets of a campaign. One is judged in this process; of several each backend has a process of its own, so
    that none harms another."""
    if len(names) == 1:
        return [target(names[0], patience)]
    latest = Latest()
    return [target_apart(name, patience, latest) for name in names]


def judged(of: Target, module: Program, inputs: Mapping[str, Any]) -> Result:
    """What a target makes of an example; whatever is raised is a crash: a fault of ours, unless a backend raised it."""
    try:
        return of.judge(module, inputs)
    except Unsupported as wrong:
        return Result("unsaid", wrong.label, "", wrong.message)
    except (Invalid, Unpredictable) as wrong:
        return Result("crash", f"{type(wrong).__name__} {wrong.label}", "", wrong.message)
    except Trap as wrong:
        return Result("crash", f"Trap {wrong.kind}", "", str(wrong))
    except Crash as wrong:
        return Result("crash", _place(wrong), "", wrong.message)
    except MemoryError:
        if isinstance(of, BackendTarget) and isinstance(
            of.backend, Isolated
        ):  # then it is not the backend that wants it
            return Result("crash", "memory", "", "judging wants more memory than one worker may take")
        return Result("died", "memory", "", "it wants more memory than one worker may take; the program is small")
    except Exception as wrong:  # noqa: BLE001  finding what is raised that should not be is what this is for
        return Result("crash", f"{type(wrong).__name__} at {_place(wrong)}", "", str(wrong)[:500])


def _place(wrong: BaseException) -> str:
    """The function that raised, without a line number, which the next edit would change."""
    frame = traceback.extract_tb(wrong.__traceback__)[-1]
    return f"{Path(frame.filename).name}:{frame.name}"


def plain(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs as arrays, for a file."""
    found = {n: np.asarray(v) for n, v in inputs.items()}
    for array in found.values():
        dtype(array.dtype)
    return found

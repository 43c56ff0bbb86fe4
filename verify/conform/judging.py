"""One case, and what each backend makes of it (specs/verify.md, "Conformance")."""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from assay.lower.frontends.onnx.string_table import Strings
from assay.semantics.errors import AssayError, BudgetSpent, Crash, EnvironmentFailure, Trap, Unsupported
from assay.verify.backends import Backend, Prepared, Subject
from assay.verify.backends.protocol import ABSENT, OUTCOMES, UnreadSubject, call_prepared
from assay.verify.border.values import to_arrays
from assay.verify.conform.cases import NOT_JUDGED, CaseResult, ConformCase, NotJudged, Posed
from assay.verify.judge.outcome import GRAVEST, verdict_data
from assay.verify.judge.run import of_the_whole
from assay.verify.oracle import Expected, Oracle, Verdict, judge_backend, oracle_of

FAULT = "a fault in Assay"
BUDGET = "more memory or time is wanted than the judge may take"
FORM = "the backend takes the case, and not the form in which we can judge it"
FORM_WRONG = "the backend is wrong on the form in which we can judge the case, which says nothing of ONNX's own"
DISPUTED = "the stored results are none that our definition allows, and it refutes the backend too"
_KNOWN = GRAVEST.index("undecided")
OF_RUNS = (*GRAVEST[:_KNOWN], NOT_JUDGED, *GRAVEST[_KNOWN:])
"""Of several runs of a case the first of these is what came of it."""


def judge_case(case: ConformCase, backends: Mapping[str, Backend]) -> list[CaseResult]:
    """What came of a case, for each backend by name. Invalid (backend.C1): one is not installed. EnvironmentFailure,
    but a spent budget, passes too: it says nothing of the case."""
    base = CaseResult(case.name, case.suite, case.operator, "", NOT_JUDGED)
    started = time.perf_counter()
    try:
        posed = case.posed()
        runs = [_Run(p) for p in posed]
        stored = next((said for r in runs if (said := r.disagreement)), "")
    except Exception as wrong:  # noqa: BLE001  (what is not known is raised by `_why_not`)
        kind, detail = _why_not(wrong)
        seconds = time.perf_counter() - started
        return [replace(base, backend=n, reason=kind, detail=detail, seconds=seconds) for n in backends]
    found = []
    for name, backend in backends.items():
        started = time.perf_counter()
        made = [run.result(replace(base, backend=name), backend) for run in runs]
        worst = min(made, key=lambda r: OF_RUNS.index(r.verdict))
        found.append(replace(worst, stored=stored, seconds=time.perf_counter() - started))
    return found


class _Run:
    """One run of a case, what may come of it, and how what is stored stands to that."""

    def __init__(self, posed: Posed) -> None:
        self.posed = posed
        self.oracle: Oracle = oracle_of(posed.subject)
        self.expected: Expected = self.oracle.expected(posed.inputs)
        self.disagreement = ""
        if posed.stored is not None:
            verdict = self.oracle.judge(self.expected, posed.stored)
            self.disagreement = str(verdict) if verdict.outcome == "wrong" else ""

    def result(self, base: CaseResult, backend: Backend) -> CaseResult:
        """What came of the run for a backend."""
        posed = self.posed
        who = SpeaksNumbers(backend, posed.strings) if posed.strings is not None else backend
        try:
            verdict = judge_backend(posed.subject, who, self.expected, others=False)
        except AssayError as wrong:
            if wrong.label in ABSENT:
                raise
            if OUTCOMES.get(wrong.label) == "refused" and self._takes_original(backend):
                return replace(base, reason=FORM, detail=wrong.message)
            if wrong.label in OUTCOMES:
                return replace(base, verdict=OUTCOMES[wrong.label], detail=wrong.message)
            kind, detail = _why_not(wrong)
            return replace(base, reason=kind, detail=detail)
        except Exception as wrong:  # noqa: BLE001  (as above)
            kind, detail = _why_not(wrong)
            return replace(base, reason=kind, detail=detail)
        found = of_the_whole(posed.subject, who, posed.inputs, verdict)
        if found is not None:
            return replace(base, verdict=found.outcome, detail=f"{found.closing()}; by itself: {verdict.detail}")
        return self._told(base, who, verdict)

    def _told(self, base: CaseResult, who: Backend, verdict: Verdict) -> CaseResult:
        """The result by a verdict, which may be the fault of what is stored, or of the form of the case."""
        if verdict.outcome == "wrong" and self.disagreement:
            return replace(base, reason=DISPUTED, detail=f"{verdict}; stored: {self.disagreement}")
        if verdict.outcome == "wrong" and not self._wrong_on_original(who):
            return replace(base, reason=FORM_WRONG, detail=str(verdict))
        return _judged(base, verdict)

    def _takes_original(self, backend: Backend) -> bool:
        """Whether a backend that refuses the program takes the model of the case, of which it is another form."""
        if self.posed.original is None:
            return False
        model, inputs = self.posed.original
        subject = UnreadSubject(model, {})
        try:
            run = backend.prepare(subject, subject.outputs)
            if all(isinstance(v, np.ndarray) for v in inputs.values()):
                call_prepared(backend.name, run, inputs)
        except AssayError:
            return False
        return True

    def _wrong_on_original(self, backend: Backend) -> bool:
        """Whether a backend that is wrong on the program is so on the model of the case too, of which it is another
        form. Where that has sequences or optional values among its inputs it cannot be handed over."""
        if self.posed.original is None:
            return True
        model, inputs = self.posed.original
        if not all(isinstance(v, np.ndarray) for v in inputs.values()):
            return False
        subject = UnreadSubject(model, {})
        try:
            outputs = call_prepared(backend.name, backend.prepare(subject, subject.outputs), inputs)
        except (AssayError, Trap):
            return True
        return self.oracle.judge(self.expected, to_arrays(outputs)).outcome == "wrong"


def _judged(base: CaseResult, verdict: Verdict) -> CaseResult:
    worst: dict[str, Any] = verdict_data(verdict.worst) if verdict.worst is not None else {}
    return replace(
        base, verdict=verdict.outcome, detail=verdict.detail, layer=verdict.layer, culprit=verdict.culprit or "",
        worst=worst,
    )  # fmt: skip


def _why_not(wrong: Exception) -> tuple[str, str]:
    """Why a case is not judged: what such cases are counted under, and the detail. Surroundings that fail pass."""
    match wrong:
        case NotJudged():
            return wrong.kind, wrong.detail
        case BudgetSpent() | MemoryError():
            return BUDGET, str(wrong)
        case Trap(kind="memory"):
            return BUDGET, str(wrong)
        case EnvironmentFailure():
            raise wrong
        case Crash():
            return FAULT, str(wrong)
        case AssayError():
            what = "our import does not take it" if isinstance(wrong, Unsupported) else "our import refuses it"
            return f"{what} ({wrong.label})", wrong.message.partition("\n")[0]
        case _:
            frame = traceback.extract_tb(wrong.__traceback__)[-1]
            return FAULT, f"{type(wrong).__name__} at {Path(frame.filename).name}:{frame.lineno}: {wrong}"


@dataclass(frozen=True)
class SpeaksNumbers:
    """A backend that takes and gives strings, as one that takes and gives the numbers that our definition has for
    them."""

    backend: Backend
    strings: Strings

    @property
    def name(self) -> str:
        """The backend's name."""
        return self.backend.name

    @property
    def accepts(self) -> Any:
        """What the backend declares of itself."""
        return getattr(self.backend, "accepts", None)

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        """Prepare as the backend does. Unsupported (backend.C2) on a run: a number stands for no string."""
        run = self.backend.prepare(subject, wanted)
        texts = {
            i.name for i in subject.model.graph.input if i.type.tensor_type.elem_type == _STRING
        }  # what is made of numbers

        def call(inputs: Mapping[str, Any]) -> dict[str, Any]:
            try:
                given = {n: self._texts(v) if n in texts else v for n, v in inputs.items()}
            except AssayError as wrong:
                raise Unsupported(wrong.message, label="backend.C2") from None
            return {n: self._numbers(v) for n, v in run(given).items()}

        return call

    def _texts(self, value: Any) -> Any:
        return value if value.dtype.kind in "OSTU" else self.strings.texts(value)

    def _numbers(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._numbers(v) for v in value]
        is_text = isinstance(value, np.ndarray) and value.dtype.kind in "OSTU"
        return self.strings.numbers(value) if is_text else value


_STRING = 8
"""ONNX's number of the element type string."""

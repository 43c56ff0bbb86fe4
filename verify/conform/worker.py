"""Cases in processes of their own (specs/verify.md, "Conformance").

The pool is that of a fuzzing campaign. Each worker judges one case at a time, and keeps a process for each backend.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from assay.verify.backends import Isolated
from assay.verify.conform.cases import NOT_JUDGED, CaseResult, ConformCase
from assay.verify.conform.judging import judge_case
from assay.verify.fuzz.cases import Recipe
from assay.verify.fuzz.worker import ExampleReport, Task

GONE = "the judge's own process ended or took too long"

_isolated: dict[str, Isolated] = {}
"""The backends of this process."""


@dataclass(frozen=True)
class CaseTask(Task):
    """A case to judge, which has the only number of the task."""

    case: ConformCase | None = None
    backends: tuple[str, ...] = ()


@dataclass
class CaseReport(ExampleReport):
    """What came of a case, for each backend."""

    results: list[CaseResult] = field(default_factory=list)


class CaseWorkers(Protocol):
    """Whoever does tasks: processes of this machine, or this one."""

    def run(self, tasks: Iterable[Task]) -> Iterator[ExampleReport]:
        """Do tasks, and give their reports as they are finished."""
        ...

    def close(self) -> None:
        """End what was started."""
        ...


def case_task(number: int, case: ConformCase, backends: Sequence[str], patience: float) -> CaseTask:
    """The task of judging a case."""
    nothing = Recipe((), 0, ())
    return CaseTask(
        ("conform",), nothing, 0, (number,), seconds=0.0, case=case, backends=(*backends,), patience=patience
    )


def judge_cases(task: Task) -> Iterator[ExampleReport]:
    """Do a task: what a worker is started for."""
    assert isinstance(task, CaseTask) and task.case is not None
    backends = {}
    for name in task.backends:
        backends[name] = _isolated.setdefault(name, Isolated(name, task.patience))
    yield CaseReport(task.numbers, results=judge_case(task.case, backends))


def results_of(report: ExampleReport, case: ConformCase, backends: Sequence[str]) -> list[CaseResult]:
    """The results in a report; where the worker was lost, that the case is not judged."""
    if isinstance(report, CaseReport):
        return report.results
    why = "; ".join(f.result.detail for f in report.failures)
    lost = CaseResult(case.name, case.suite, case.operator, "", NOT_JUDGED, why, GONE)
    return [replace(lost, backend=name) for name in backends]

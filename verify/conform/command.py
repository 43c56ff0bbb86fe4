"""`assay conform`: a backend on all cases (specs/verify.md, "Conformance")."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from assay.semantics.errors import Invalid
from assay.verify import children
from assay.verify.app.answers import answering, write_answer
from assay.verify.app.junit import write_junit
from assay.verify.app.showing import status
from assay.verify.app.spending import require_seconds
from assay.verify.app.terminal import Screen
from assay.verify.backends import Isolated
from assay.verify.backends.catalogue import version_of
from assay.verify.backends.registry import require_known
from assay.verify.border.files import replace_text, require_file_place
from assay.verify.conform.cases import VERDICTS, CaseResult, ConformCase
from assay.verify.conform.junit_cases import junit_cases
from assay.verify.conform.kept import KeptResults
from assay.verify.conform.onnx_cases import onnx_cases
from assay.verify.conform.program_cases import OURS, text_cases
from assay.verify.conform.scoreboard import Scoreboard, about_stored, badge, disagreements
from assay.verify.conform.stablehlo_cases import conform_stablehlo, stablehlo_files
from assay.verify.conform.worker import CaseWorkers, case_task, judge_cases, results_of
from assay.verify.evidence import plural
from assay.verify.exits import Exit, gravest
from assay.verify.fuzz.command import MOST_JOBS
from assay.verify.fuzz.pool import Pool
from assay.verify.fuzz.worker import Task

SUITES = ("onnx", "assay")
CALLS = 8
"""About how many answers of a backend one case takes."""


@dataclass(frozen=True)
class ConformRequest:
    """The options of the command, as they were given."""

    programs: Sequence[Path] = ()
    backends: Sequence[str] = ()
    suite: str = ""
    only: str = ""
    junit: Path | None = None
    badge: Path | None = None
    resume: Path | None = None
    jobs: int | None = None
    patience: float = 60.0


def conform(request: ConformRequest, out: Screen, as_json: bool, workers: CaseWorkers | None = None) -> Exit:
    """Judge what was asked for, and show and write it; the exit code. `workers` are those that do it, by default
    processes."""
    _require(request)
    files = stablehlo_files(request.programs)
    if files:
        return conform_stablehlo(files, request.only, request.junit, out, as_json)
    names = list(dict.fromkeys(request.backends))
    versions = {n: version_of(n) for n in names}
    cases, faults = _cases(request)
    kept = KeptResults(request.resume, {"onnx": version("onnx"), **versions}) if request.resume is not None else None
    run = ConformRun(cases, names, request.patience, kept)
    interrupted = False
    with answering({}), status() as tell:
        try:
            if names:
                run.judge(workers or _started(request, tell), tell)
        except KeyboardInterrupt:  # what was found until then is worth as much
            interrupted = True
        finally:
            if kept is not None:
                kept.close()
    boards = [Scoreboard(n, versions[n], run.results[n]) for n in names]
    if request.junit is not None:
        write_junit(request.junit, "assay conform", junit_cases(boards, faults))
    if request.badge is not None:
        replace_text(request.badge, json.dumps(badge(boards[0], _suites(request)), indent=1) + "\n")
    found = [*(b.exit for b in boards), *([Exit.WRONG] if any(faults.values()) else [])]
    code = Exit.INTERRUPTED if interrupted else gravest(found)
    if as_json:
        write_answer({**_as_data(boards, faults, code), "interrupted": interrupted, "wanted": len(cases)})
    else:
        _show(boards, faults, out)
        if interrupted:
            out.print(f"interrupted: {run.done:,} of {len(cases):,} cases are judged")
    return code


def _started(request: ConformRequest, tell: Callable[[str], None]) -> Pool:
    """The worker processes. Invalid (backend.C1): a backend's tool is not installed."""
    names = dict.fromkeys(request.backends)
    for name in names:
        tell(f"starting {name}")
        with Isolated(name, request.patience) as who:
            who.require_installed()
    return Pool(request.jobs or children.cores(), 300.0 + CALLS * request.patience * len(names), judge_cases)


def _require(request: ConformRequest) -> None:
    """Invalid: the options do not go together, or one cannot be read."""
    if request.suite and request.suite not in (*SUITES, "all"):
        raise Invalid(f"no suite {request.suite!r}; there are {', '.join(SUITES)} and all", label="cli.C3")
    if request.programs and request.suite:
        raise Invalid("--suite names suites, and files are given instead: give one of the two", label="cli.C3")
    if not request.backends and "onnx" in _suites(request) and not request.programs:
        raise Invalid("who is judged? Give --backend NAME, or --suite assay for our own definition", label="cli.C3")
    if request.backends and stablehlo_files(request.programs):
        raise Invalid(
            "StableHLO files hold their own comparisons, to which our definition is held: no --backend goes with them",
            label="cli.C3",
        )
    if request.badge is not None and len(set(request.backends)) != 1:
        raise Invalid("--badge is of one backend: give --backend once", label="cli.C3")
    if request.jobs is not None and not 1 <= request.jobs <= MOST_JOBS:
        raise Invalid(f"--jobs is {request.jobs}; from 1 to {MOST_JOBS} are wanted", label="cli.C3")
    require_seconds("--patience", request.patience)
    try:
        re.compile(request.only)
    except re.error as wrong:
        raise Invalid(f"--only {request.only!r} is no regular expression: {wrong}", label="cli.C3") from None
    for name in request.backends:
        require_known(name)
    for path in (request.junit, request.badge):
        if path is not None:
            require_file_place(path)


def _suites(request: ConformRequest) -> tuple[str, ...]:
    if request.programs:
        return ("programs",)
    return SUITES if request.suite in ("", "all") else (request.suite,)


def _cases(request: ConformRequest) -> tuple[list[ConformCase], dict[str, list[str]]]:
    """The cases that are asked for, and what of those of programs our own definition does not meet. Invalid
    (conform.C1): there are none."""
    found: list[ConformCase] = []
    faults: dict[str, list[str]] = {}
    if "onnx" in _suites(request):
        found += onnx_cases(request.only)
    if request.programs or "assay" in _suites(request):
        texts, faults = text_cases(request.programs or [OURS], request.only)
        found += texts
    if not found and not faults:
        of = f" whose name has {request.only}" if request.only else ""
        raise Invalid(f"there is no case{of}", label="conform.C1")
    return found, faults


@dataclass
class ConformRun:
    """Judges cases. `results` are those by backend, in the order of the cases as soon as all are judged."""

    cases: Sequence[ConformCase]
    backends: Sequence[str]
    patience: float
    kept: KeptResults | None = None
    results: dict[str, list[CaseResult]] = field(default_factory=dict)
    done: int = 0

    def __post_init__(self) -> None:
        self.results = {n: [] for n in self.backends}

    def judge(self, workers: CaseWorkers, tell: Callable[[str], None]) -> None:
        """Judge every case that no earlier run has judged, and end the workers. KeyboardInterrupt passes; what was
        found stays."""
        numbers = {(c.name, c.digest): i for i, c in enumerate(self.cases)}
        found: dict[int, dict[str, CaseResult]] = {}
        for digest, result in self.kept.results if self.kept is not None else ():
            number = numbers.get((result.case, digest))
            if number is not None and result.backend in self.results:
                found.setdefault(number, {})[result.backend] = result
        try:
            for report in workers.run(self._tasks(found)):
                for number in report.numbers:
                    case = self.cases[number]
                    made = results_of(report, case, self._left(found, number))
                    if self.kept is not None:
                        self.kept.add(case.digest, made)
                    found.setdefault(number, {}).update((r.backend, r) for r in made)
                tell(self._said(found))
        finally:
            workers.close()
            self.done = sum(not self._left(found, i) for i in range(len(self.cases)))
            for name, results in self.results.items():
                results += [found[i][name] for i in sorted(found) if name in found[i]]

    def _left(self, found: Mapping[int, Mapping[str, CaseResult]], number: int) -> list[str]:
        return [n for n in self.backends if n not in found.get(number, {})]

    def _tasks(self, found: Mapping[int, Mapping[str, CaseResult]]) -> Iterator[Task]:
        for number, case in enumerate(self.cases):
            left = self._left(found, number)
            if left:
                yield case_task(number, case, left, self.patience)

    def _said(self, found: Mapping[int, Mapping[str, CaseResult]]) -> str:
        wrong = sum(r.verdict == "wrong" for made in found.values() for r in made.values())
        return f"{len(found):,} of {len(self.cases):,} cases" + (f", {wrong} wrong" if wrong else "")


# --- showing ----------------------------------------------------------------------------------------------------------


def _as_data(boards: Sequence[Scoreboard], faults: Mapping[str, list[str]], code: Exit) -> dict[str, Any]:
    holds = True if code is Exit.HOLDS else False if code is Exit.WRONG else None
    definition = {"cases": len(faults), "refuted": {n: said for n, said in faults.items() if said}}
    return {
        "holds": holds, "exit": code, "definition": definition, "backends": [b.as_data() for b in boards],
        "stored": disagreements(boards),
    }  # fmt: skip


def _show(boards: Sequence[Scoreboard], faults: Mapping[str, list[str]], out: Screen) -> None:
    for board in boards:
        _table(board, out)
    for board in boards:
        for r in board.failing:
            by = f"; the first operator that is wrong is {r.culprit}" if r.culprit else ""
            out.print(f"{r.verdict}  {board.backend}  {r.case}: {r.detail}{by}")
    found = disagreements(boards)
    if found:
        out.print(about_stored(found))
        for name, why in found.items():
            out.print(f"    {name}: {why}")
    for name, said in faults.items():
        for fault in said:
            out.print(f"refuted  {name}: {fault}")
    if faults:
        wrong = sum(map(bool, faults.values()))
        met = f"meets the expectations of {len(faults) - wrong:,} of {plural(len(faults), 'case')} of programs"
        out.print(f"our definition {met}" + (f"; it refutes {wrong:,}, which is no backend's fault" if wrong else ""))
    for board in boards:
        out.print(board.line())


def _table(board: Scoreboard, out: Screen) -> None:
    """Counts by operator, those that are right in all cases in one row."""
    columns = [v for v in VERDICTS if board.counts[v]]
    rows = {n: c for n, c in board.operators.items() if any(c[v] for v in VERDICTS if v != "right")}
    rest = sum(c["right"] for n, c in board.operators.items() if n not in rows)
    if rest:
        others = plural(len(board.operators) - len(rows), "operator")
        rows[f"{others} right in all"] = Counter(right=rest)
    rows["all"] = board.counts
    width = max(len("operator"), *map(len, rows))
    out.print(board.name)
    out.print("  ".join(["operator".ljust(width), *columns]))
    for name, counts in rows.items():
        cells = (str(counts[v] or "").rjust(len(v)) for v in columns)
        out.print("  ".join([name.ljust(width), *cells]).rstrip())

"""Scoreboards as tests, for JUnit's XML (specs/verify.md, "Conformance")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from assay.verify.app.junit import TestCase
from assay.verify.conform.cases import CaseResult
from assay.verify.conform.scoreboard import Scoreboard


def junit_cases(boards: Sequence[Scoreboard], faults: Mapping[str, Sequence[str]]) -> Iterator[TestCase]:
    """A suite for each backend, and one for our definition, of which `faults` says by case where it does not meet an
    expectation."""
    for name, said in faults.items():
        yield TestCase("assay.definition", name, "refuted" if said else "right", "; ".join(said), group=_group(name))
    for board in boards:
        for result in board.results:
            yield _test(board, result)


def _test(board: Scoreboard, r: CaseResult) -> TestCase:
    said = "; ".join(part for part in (r.reason, r.detail) if part)
    said += f"; the first operator that is wrong is {r.culprit}" if r.culprit else ""
    note = f"the stored results: {r.stored}" if r.stored else ""
    group = f"{r.suite}.{_group(r.case)}"
    return TestCase(f"assay.{board.backend}", r.case, r.verdict, said, r.seconds, group, note)


def _group(name: str) -> str:
    return name.rpartition("/")[0].replace("/", ".") or "cases"

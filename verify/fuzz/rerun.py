"""A failure run again, as the tests do that are written of failures (specs/verify.md, "reduce", "Fuzzing").

    check_again(MODEL, INPUTS, "onnxruntime")

pytest is imported where a test is skipped, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assay.semantics.errors import AssayError
from assay.semantics.module import Module
from assay.verify.backends import Isolated, subject_of_model, subject_of_module
from assay.verify.backends.protocol import ABSENT, OUTCOMES
from assay.verify.fuzz.targets import FAILURES, OURS, Program, judged
from assay.verify.oracle import judge_backend

UNUSABLE = "unusable"


@dataclass(frozen=True)
class Rerun:
    """What came of a program: a word of the ladder of verdicts, *absent* where who is judged is not installed, or
    *unusable* where MODULE:NAME is no backend that this Python finds; and what is said of it."""

    outcome: str
    said: str

    def __str__(self) -> str:
        return self.said if self.said.startswith(self.outcome) else f"{self.outcome}: {self.said}"


def rerun(program: Program, inputs: Mapping[str, Any], who: str, seconds: float = 60.0) -> Rerun:
    """Judge a backend, in a process of its own, or one of our own targets."""
    if who in OURS:
        result = judged(OURS[who], program, inputs)
        return Rerun(result.kind, result.detail)
    subject = subject_of_module(program) if isinstance(program, Module) else subject_of_model(program)
    with Isolated(who, seconds) as process:
        try:
            verdict = judge_backend(subject, process, inputs)
        except AssayError as wrong:
            outcome = "absent" if wrong.label in ABSENT else _outcome_of(wrong.label)
            if outcome is None:
                raise
            more = "; its module is looked for on PYTHONPATH" if outcome == UNUSABLE else ""
            return Rerun(outcome, wrong.message + more)
    return Rerun(verdict.outcome, str(verdict))


def _outcome_of(label: str) -> str | None:
    return UNUSABLE if label == "backend.C4" else OUTCOMES.get(label)


def check_again(program: Program, inputs: Mapping[str, Any], who: str) -> None:
    """AssertionError: the failure is still there. The test is skipped, with one line, where who is judged is not
    installed or refuses the program."""
    __tracebackhide__ = True
    found = rerun(program, inputs, who)
    if found.outcome in ("absent", "refused"):
        import pytest

        pytest.skip(" ".join(str(found).split()))
    # not skipped: a test that nobody can run shows nothing, and a mistyped path must not look like a mended fault
    assert found.outcome not in (*FAILURES, UNUSABLE), str(found)

"""What a reduced case still has to show (specs/verify.md, "reduce")."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from assay.semantics.errors import AssayError, Unsupported
from assay.verify.backends import Backend, subject_of_model
from assay.verify.backends.protocol import FATAL, OUTCOMES, Crashed
from assay.verify.oracle import judge_backend
from assay.verify.reduce.case import ReducedCase

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class CaseFinding:
    """What a backend did with a case: its outputs are wrong, or it did not survive."""

    kind: Literal["wrong", "died", "late"]
    said: str
    operator: str = ""
    """The first operator that is wrong, if that is known: its ONNX name."""
    crash: str = ""
    """What it raised, and where in its own code, if it crashed by an exception."""

    def is_shown_by(self, now: CaseFinding | None) -> bool:
        """Whether what was found in a smaller case is the same."""
        if now is None or now.kind != self.kind or now.crash != self.crash:
            return False
        return not self.operator or now.operator == self.operator


def find(case: ReducedCase, backend: Backend) -> CaseFinding | None:
    """What is to be found in a case, if anything. What cannot be imported, or is refused, shows nothing."""
    try:
        return look(case, backend)
    except AssayError:
        return None


def look(case: ReducedCase, backend: Backend, seen: list[str] | None = None) -> CaseFinding | None:
    """What is to be found in a case, if anything; the verdict is put to those that were `seen`. Raises what says that
    it cannot be judged."""
    try:
        verdict = judge_backend(subject_of_model(case.model), backend, case.inputs)
    except Unsupported as wrong:
        if wrong.label not in FATAL:
            raise
        kind: Literal["died", "late"] = "late" if OUTCOMES[wrong.label] == "late" else "died"
        return CaseFinding(kind, wrong.message, crash=wrong.key if isinstance(wrong, Crashed) else "")
    if seen is not None:
        seen.append(verdict.outcome)
    if verdict.outcome != "wrong":
        return None
    return CaseFinding("wrong", str(verdict), (verdict.culprit or "").split(",")[0].split(" ")[0])


def shows(backend: Backend, found: CaseFinding) -> Callable[[ReducedCase], bool]:
    """Whether a case shows the same: the same kind, by the same operator where one was named, and the same crash."""
    return lambda case: found.is_shown_by(find(case, backend))


def first_finding(
    case: ReducedCase, backend: Backend, others: Mapping[str, Mapping[str, Array]], seen: list[str] | None = None
) -> tuple[ReducedCase, CaseFinding] | None:
    """The case with its own inputs or the first of others, by what they are called, on which there is something to
    find; the verdicts are put to those that were `seen`. Raises why it cannot be judged where that is so on all of
    them; and at once where that is no refusal by the backend."""
    refused: Unsupported | None = None
    judged = False
    for inputs in (case.inputs, *others.values()):
        given = ReducedCase(case.model, inputs)
        try:
            found = look(given, backend, seen)
        except Unsupported as wrong:
            refused = wrong
            continue
        judged = True
        if found is not None:
            return given, found
    if refused is not None and not judged:
        raise refused
    return None

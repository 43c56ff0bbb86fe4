"""What a reduced case still has to show (specs/verify.md, "reduce")."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.semantics.errors import AssayError, Unsupported
from assay.verify.backends import Backend, subject_of_model
from assay.verify.backends.protocol import FATAL, OUTCOMES, Crashed
from assay.verify.oracle import judge_backend
from assay.verify.oracle.trial import BETWEEN
from assay.verify.reduce.case import ReducedCase

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class CaseFinding:
    """What a backend did with a case: its outputs are wrong (or implausible, or open), or it did not survive."""

    kind: str
    """wrong, implausible, open, died or late."""
    said: str
    operator: str = ""
    """The first operator that is wrong, if that is known: its ONNX name."""
    crash: str = ""
    """What it raised, and where in its own code, if it crashed by an exception."""
    between: bool = False
    """Whether it is only seen on other inputs, between two runs on these."""

    def is_shown_by(self, now: CaseFinding | None) -> bool:
        """Whether what was found in a smaller case is the same."""
        if now is None or now.kind != self.kind or now.crash != self.crash:
            return False
        if now.between and not self.between:
            return False  # whoever reads the case wants to see it on the inputs that stand there
        return not self.operator or now.operator == self.operator


SOUGHT = ("wrong", "implausible", "died", "late")
"""What is looked for in a case."""


def find(case: ReducedCase, backend: Backend, sought: Collection[str] = SOUGHT) -> CaseFinding | None:
    """What is to be found in a case, if anything. What cannot be imported, or is refused, shows nothing."""
    try:
        return look(case, backend, sought=sought)
    except AssayError:
        return None


def look(
    case: ReducedCase, backend: Backend, seen: list[str] | None = None, sought: Collection[str] = SOUGHT
) -> CaseFinding | None:
    """What is to be found in a case, if anything of what is `sought`; the verdict is put to those that were `seen`.
    Raises what says that it cannot be judged."""
    try:
        verdict = judge_backend(subject_of_model(case.model), backend, case.inputs)
    except Unsupported as wrong:
        if wrong.label not in FATAL:
            raise
        kind = "late" if OUTCOMES[wrong.label] == "late" else "died"
        if seen is not None:
            seen.append(kind)
        if kind not in sought:
            return None
        return CaseFinding(kind, wrong.message, crash=wrong.key if isinstance(wrong, Crashed) else "")
    if seen is not None:
        seen.append(verdict.outcome)
    if verdict.outcome not in sought:
        return None
    operator = (verdict.culprit or "").split(",")[0].split(" ")[0]
    between = verdict.detail.startswith(BETWEEN)
    return CaseFinding(verdict.outcome, str(verdict), operator, between=between)


def shows(backend: Backend, found: CaseFinding) -> Callable[[ReducedCase], bool]:
    """Whether a case shows the same: the same kind, by the same operator where one was named, and the same crash."""
    return lambda case: found.is_shown_by(find(case, backend, (found.kind,)))


def first_finding(
    case: ReducedCase,
    backend: Backend,
    others: Mapping[str, Mapping[str, Array]],
    seen: list[str] | None = None,
    sought: Collection[str] = SOUGHT,
) -> tuple[ReducedCase, CaseFinding] | None:
    """The case with its own inputs or the first of others, by what they are called, on which there is something to
    find; the verdicts are put to those that were `seen`. Raises why it cannot be judged where that is so on all of
    them; and at once where that is no refusal by the backend."""
    refused: Unsupported | None = None
    judged = False
    for inputs in (case.inputs, *others.values()):
        given = ReducedCase(case.model, inputs)
        try:
            found = look(given, backend, seen, sought)
        except Unsupported as wrong:
            refused = wrong
            continue
        judged = True
        if found is not None:
            return given, found
    if refused is not None and not judged:
        raise refused
    return None

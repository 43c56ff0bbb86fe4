"""What is judged one by one, and what came of it (specs/verify.md, "Conformance")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np
from onnx import ModelProto

from assay.lower.frontends.onnx.string_table import Strings
from assay.verify.backends import Subject

Array = np.ndarray[Any, Any]

NOT_JUDGED = "not judged"
"""The verdict where our side cannot judge: it says nothing of the backend."""
VERDICTS = (
    "right", "open", "undecided", "implausible", "wrong", "unpredictable", "refused", "died", "late", NOT_JUDGED,
)  # fmt: skip
"""The verdicts in the order in which a scoreboard shows them."""
FAILING = ("implausible", "wrong", "died", "late")
"""Those that speak against the backend."""
SEVERAL = "(several operators)"
"""What cases of several operators are counted under."""


class NotJudged(Exception):
    """A case cannot be judged, for a reason on our side: `kind` is what such cases are counted under."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.kind, self.detail = kind, detail


@dataclass(frozen=True)
class Posed:
    """One run of a case: the program, its inputs, and the results that the case has stored, None where it has none.
    `strings` are those that numbers of ours stand for, None where there are none; `original` is the model of the case
    with its inputs by name, where the program is another form of it."""

    subject: Subject
    inputs: Mapping[str, Array]
    stored: Mapping[str, Any] | None = None
    strings: Strings | None = None
    original: tuple[ModelProto, Mapping[str, Any]] | None = None


class ConformCase(Protocol):
    """A case of a suite, which another process can pose."""

    @property
    def name(self) -> str:
        """The name by which it is chosen and told."""
        ...

    @property
    def suite(self) -> str:
        """The suite that it belongs to."""
        ...

    @property
    def operator(self) -> str:
        """The operator that it is counted under."""
        ...

    @property
    def digest(self) -> str:
        """What tells it from another version of itself, where its suite has no versions."""
        ...

    def posed(self) -> list[Posed]:
        """Its runs. NotJudged: our side cannot judge it; AssayError: the same, by a rule."""
        ...


@dataclass(frozen=True)
class CaseResult:
    """What came of one case for one backend. `reason` is what a case that is not judged is counted under. `worst` is
    the worst element of a wrong one; `stored` says where the results that the case has stored are none that the
    definition allows, and "" where they are, or there are none."""

    case: str
    suite: str
    operator: str
    backend: str
    verdict: str
    detail: str = ""
    reason: str = ""
    layer: str = ""
    culprit: str = ""
    worst: Mapping[str, Any] = field(default_factory=dict)
    stored: str = ""
    seconds: float = 0.0

    def as_data(self) -> dict[str, Any]:
        """The result for machines, without what it does not have."""
        return {name: value for name, value in asdict(self).items() if value or name == "seconds"}

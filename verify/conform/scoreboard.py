"""What came of all cases: counts for each backend and operator, and a line in plain words (specs/verify.md,
"Conformance")."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from assay.verify.conform.cases import FAILING, NOT_JUDGED, VERDICTS, CaseResult
from assay.verify.conform.judging import FAULT
from assay.verify.evidence import plural
from assay.verify.exits import OF_OUTCOME, Exit, gravest

WORDS = {
    "right": "right",
    "open": "differ only where the standard leaves it open",
    "undecided": "undecided",
    "implausible": "implausible",
    "wrong": "wrong",
    "unpredictable": "unpredictable",
    "refused": "refused by the backend",
    "died": "ended by its death",
    "late": "not answered in time",
}
"""How the closing line says the verdicts."""


@dataclass
class Scoreboard:
    """The results of one backend."""

    backend: str
    version: str
    results: list[CaseResult] = field(default_factory=list)

    @property
    def counts(self) -> Counter[str]:
        """How many cases have each verdict."""
        return Counter(r.verdict for r in self.results)

    @property
    def operators(self) -> dict[str, Counter[str]]:
        """How many cases of each operator have each verdict."""
        found: dict[str, Counter[str]] = {}
        for r in self.results:
            found.setdefault(r.operator, Counter())[r.verdict] += 1
        return dict(sorted(found.items()))

    @property
    def reasons(self) -> Counter[str]:
        """Why cases are not judged."""
        return Counter(r.reason for r in self.results if r.verdict == NOT_JUDGED)

    @property
    def failing(self) -> list[CaseResult]:
        """The cases that speak against the backend."""
        return [r for r in self.results if r.verdict in FAILING]

    @property
    def exit(self) -> Exit:
        """The exit code of a run that has only this to say. A case that is not judged leaves it undecided."""
        codes = {OF_OUTCOME.get(verdict, Exit.UNDECIDED) for verdict in self.counts}
        return gravest([*codes, *([Exit.FAULT] if self.reasons[FAULT] else [])])

    @property
    def conforming(self) -> int:
        """The cases in which it does what the standard says."""
        return self.counts["right"] + self.counts["open"]

    @property
    def name(self) -> str:
        """The backend with its version, as far as that is known."""
        return f"{self.backend} {self.version}".strip()

    def line(self) -> str:
        """All of it in plain words."""
        counts = self.counts
        said = [f"{counts[v]:,} {words}" for v, words in WORDS.items() if counts[v]]
        if counts[NOT_JUDGED]:
            why = "; ".join(f"{count:,}: {reason}" for reason, count in self.reasons.most_common())
            said.append(f"{counts[NOT_JUDGED]:,} could not be judged by us ({why})")
        total = len(self.results)
        return f"{self.name}: of {total:,} case{'' if total == 1 else 's'} {', '.join(said) or 'none judged'}"

    def as_data(self) -> dict[str, Any]:
        """The scoreboard for machines."""
        code = self.exit
        return {
            "backend": self.backend, "version": self.version, "line": self.line(), "cases": len(self.results),
            "holds": True if code is Exit.HOLDS else False if code is Exit.WRONG else None,
            "counts": shown(self.counts), "reasons": dict(self.reasons.most_common()),
            "operators": {name: shown(counts) for name, counts in self.operators.items()},
            "results": [r.as_data() for r in self.results],
        }  # fmt: skip


def shown(counts: Mapping[str, int]) -> dict[str, int]:
    """Counts by verdict, in the order of the verdicts, without those that nothing has."""
    return {v: counts[v] for v in VERDICTS if counts.get(v)}


def disagreements(boards: Iterable[Scoreboard]) -> dict[str, str]:
    """Where the stored results of cases are none that our definition allows: that is about no backend."""
    return {r.case: r.stored for board in boards for r in board.results if r.stored}


def about_stored(found: Mapping[str, str]) -> str:
    """The line on cases whose stored results our definition refutes, "" where there are none."""
    if not found:
        return ""
    said = plural(len(found), "case")
    return f"the stored results of {said} are none that our definition allows: no backend is blamed for these"


def badge(board: Scoreboard, suites: Sequence[str]) -> dict[str, Any]:
    """The badge of a scoreboard, in the form that shields.io takes from an endpoint. Cases that we cannot judge do not
    count; what is wrong makes it red."""
    judged = len(board.results) - board.counts[NOT_JUDGED]
    wrong = len(board.failing)
    message = f"{board.conforming:,} of {judged:,} right" + (f", {wrong:,} wrong" if wrong else "")
    share = board.conforming / judged if judged else 0.0
    color = (
        "lightgrey" if not judged else "red" if wrong else
        "brightgreen" if share == 1 else "green" if share >= 0.9 else "yellow"
    )  # fmt: skip
    return {"schemaVersion": 1, "label": f"{'+'.join(suites)} on {board.name}", "message": message, "color": color}

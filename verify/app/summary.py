"""What a run of several lines comes to, in one line (specs/verify.md, "Command line")."""

from __future__ import annotations

from collections.abc import Iterable

from assay.verify.app.check import Line
from assay.verify.evidence import plural

GROUNDS = {
    "proved": "proved for every input, at the sizes that each line names",
    "checked": "checked, every claim on this run's own output",
    "tested": "tested, on the inputs and sizes of this run",
}
"""How what holds is known, in the order in which it is told."""


def run_summary(lines: Iterable[Line]) -> str:
    """Which lines do not hold, of which nothing is known, and how the others are known."""
    lines = tuple(lines)
    if not lines:
        return "nothing was found"
    refuted = [n for n in lines if n.evidence.holds is False]
    wrong = [f"{n.stage} ({n.evidence.outcome})" if n.evidence.outcome else n.stage for n in refuted]
    unsure = [f"{n.stage} ({n.evidence.word})" for n in lines if n.evidence.holds is None]
    told = [f"DOES NOT HOLD: {', '.join(wrong)}"] if wrong else []
    told += [f"not known: {', '.join(unsure)}"] if unsure else []
    if not told:
        told.append("the only line holds" if len(lines) == 1 else f"all {plural(len(lines), 'line')} hold")
    for how, words in GROUNDS.items():
        found = [n.stage for n in lines if n.evidence.holds and n.evidence.how == how]
        told += [f"{words}: {', '.join(found)}"] if found else []
    return "; ".join(told)

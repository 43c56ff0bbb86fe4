"""What failures of backends come to, by campaigns and by conformance: parts of `specs/scoreboard.md` (specs/verify.md,
"Findings").

    python -m tests.docs.failing DIR...    # of what `assay conform --resume DIR` kept: what fails and is not told of

Two tables are kept by hand: `specs/findings/campaign_failures.csv`, of failures that campaigns kept, by number, and
`specs/findings/conformance_failures.csv`, of cases, by name. A failure comes to a finding, or to a reason, in words.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.verify.conform.cases import FAILING
from tests.places import ROOT

OF_CAMPAIGNS = "specs/findings/campaign_failures.csv"
OF_CONFORMANCE = "specs/findings/conformance_failures.csv"


@dataclass(frozen=True)
class Failures:
    """Failures that come to the same: of a backend, a verdict and these operators."""

    backend: str
    verdict: str
    operators: str
    cases: int
    comes_to: str


def of_campaigns(root: Path) -> list[Failures]:
    """What failures of campaigns come to."""
    return [
        Failures(r["backend"], r["verdict"], r["operators"], int(r["failures"]), r["comes_to"])
        for r in rows(root / OF_CAMPAIGNS)
    ]


def of_conformance(root: Path) -> list[Failures]:
    """What cases that fail come to, those of several operators together."""
    counts: dict[tuple[str, str, str], Counter[str]] = {}
    for r in rows(root / OF_CONFORMANCE):
        key = (r["backend"], r["verdict"], r["comes_to"])
        counts.setdefault(key, Counter())[r["operator"]] += len(r["cases"].split())
    return [
        Failures(backend, verdict, ", ".join(sorted(found)), found.total(), to)
        for (backend, verdict, to), found in sorted(counts.items(), key=lambda item: item[0])
    ]


def table(failures: Sequence[Failures], noun: str, head: str) -> Iterator[str]:
    """The lines that show them."""
    found: Counter[bool] = Counter()
    for f in failures:
        found[is_finding(f.comes_to)] += f.cases
    yield f"Of {found.total():,} {noun} {found[True]:,} come to findings."
    yield ""
    yield line(["backend", "verdict", "operators", head, "comes to"])
    yield "|---" * 5 + "|"
    for f in failures:
        to = f.comes_to
        said = f"[{to.partition('/')[2]}](findings/{to}.py)" if is_finding(to) else to
        yield line([f"`{f.backend}`", f.verdict, f.operators, f"{f.cases:,}", said])


def is_finding(to: str) -> bool:
    """Whether what a failure comes to is the name of a finding; else it is a reason, in words."""
    return re.fullmatch(r"[a-z-]+-[0-9.]+/[0-9]{2}_\w+", to) is not None


def lost_findings(root: Path) -> list[str]:
    """The findings that failures are said to come to and that are not there."""
    named = {f.comes_to for f in (*of_campaigns(root), *of_conformance(root)) if is_finding(f.comes_to)}
    return sorted(to for to in named if not (root / "specs" / "findings" / f"{to}.py").is_file())


def miscounted(root: Path, boards: Mapping[str, Sequence[Mapping[str, str]]]) -> list[str]:
    """Where the cases that are told of are not as many as those that the counts of conformance have, by backend,
    verdict and operator."""
    counted: Counter[tuple[str, str, str]] = Counter()
    for row in (row for board in boards.values() for row in board):
        if row["verdict"] in FAILING:
            counted[row["backend"], row["verdict"], row["operator"]] += int(row["cases"])
    told: Counter[tuple[str, str, str]] = Counter()
    for r in rows(root / OF_CONFORMANCE):
        told[r["backend"], r["verdict"], r["operator"]] += len(set(r["cases"].split()))
    return [
        f"{' '.join(key)}: {counted[key]} counted, {told[key]} told of"
        for key in sorted(counted | told)
        if counted[key] != told[key]
    ]


def not_told(root: Path, folders: Iterable[Path]) -> Iterator[str]:
    """What runs of `assay conform` have kept that fails and is not told of as it is, and what is told of and does not
    fail so, a line for each."""
    told = {(r["backend"], case): r["verdict"] for r in rows(root / OF_CONFORMANCE) for case in r["cases"].split()}
    for folder in folders:
        _, *lines = (folder / "conform.jsonl").read_text("utf-8").splitlines()
        latest = {(r["backend"], r["case"]): r for r in map(json.loads, lines)}
        for key, result in latest.items():
            verdict = result["verdict"] if result["verdict"] in FAILING else None
            if verdict != told.get(key):
                yield "\t".join([*key, result["operator"], result["verdict"], result["detail"]])


def rows(path: Path) -> list[dict[str, str]]:
    """The rows of a table; none where there is no such file."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def line(cells: Iterable[str]) -> str:
    """A line of a table."""
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    print(*not_told(ROOT, map(Path, sys.argv[1:])), sep="\n")

"""The scoreboard of backends, `specs/scoreboard.md`, of the counts under `specs/conformance/` (specs/verify.md,
"Conformance").

    assay conform --backend NAME --resume DIR    # judge a backend on all cases, and keep each result
    python -m tests.docs.scoreboard DIR...       # count what was kept, one file for each backend
    make docs                                    # and write the page
"""

from __future__ import annotations

import csv
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from assay.verify.conform.cases import FAILING, VERDICTS
from tests.docs.campaigns import FAILURES, campaign_lines
from tests.places import ROOT

COUNTS = "specs/conformance"
PAGE = "specs/scoreboard.md"
FIELDS = ("backend", "version", "onnx", "suite", "operator", "verdict", "cases")
Row = dict[str, str]

HEAD = """# Scoreboard

What came of the cases with known results for each backend: ONNX's own and ours
([verify, "Conformance"](verify.md#conformance)). *wrong*, *implausible*, *died* and *late* speak against a backend.
*refused* is what it says that it does not take, and *not judged* is about us. A run that was not finished has fewer
cases. What is wrong was not looked into case by case: what was, is under `specs/findings/`.

This page is generated from `specs/conformance/`, which `python -m tests.docs.scoreboard DIR` writes of what
`assay conform --backend NAME --resume DIR` has kept.
"""


def counted(folders: Iterable[Path]) -> dict[str, list[Row]]:
    """The counts of what runs of `assay conform` have kept, by backend. Of a case that several have, the last counts.
    ValueError: they are of different versions."""
    latest: dict[str, dict[str, Row]] = {}
    versions: dict[str, str] = {}
    for folder in folders:
        head, *lines = (folder / "conform.jsonl").read_text("utf-8").splitlines()
        for name, version in json.loads(head)["versions"].items():
            if versions.setdefault(name, version) != version:
                raise ValueError(f"{folder}: {name} {version} beside {versions[name]}")
        for result in map(json.loads, lines):
            latest.setdefault(result["backend"], {})[result["case"]] = result
    found = {}
    for name, results in latest.items():
        counts = Counter((r["suite"], r["operator"], r["verdict"]) for r in results.values())
        values = [(name, versions[name], versions["onnx"], *key, str(counts[key])) for key in sorted(counts)]
        found[name] = [dict(zip(FIELDS, row, strict=True)) for row in values]
    return found


def write_counts(root: Path, folders: Iterable[Path]) -> list[Path]:
    """Write the counts of what these directories hold, a file for each backend."""
    written = []
    (root / COUNTS).mkdir(exist_ok=True)
    for name, rows in counted(folders).items():
        path = root / COUNTS / f"{name.replace(':', '-')}.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        written.append(path)
    return written


def scoreboard_page(root: Path) -> str:
    """The page of the counts that there are."""
    boards = {path.stem: list(_rows(path)) for path in sorted((root / COUNTS).glob("*.csv"))}
    verdicts = [v for v in VERDICTS if v != "not judged"]
    lines = [HEAD, _line(["backend", "version", "cases", *verdicts, "not judged"]), "|---" * (len(verdicts) + 4) + "|"]
    for rows in boards.values():
        counts: Counter[str] = Counter()
        for row in rows:
            counts[row["verdict"]] += int(row["cases"])
        shown = [f"{counts[v]:,}" for v in (*verdicts, "not judged")]
        lines.append(_line([f"`{rows[0]['backend']}`", rows[0]["version"], f"{counts.total():,}", *shown]))
    lines += ["", "## What speaks against them", "", "Cases by operator."]
    for rows in boards.values():
        said = list(_against(rows))
        lines += ["", f"**{rows[0]['backend']}**: {'; '.join(said) or 'nothing'}."]
    if (root / FAILURES).is_file():
        lines += ["", *campaign_lines(root)]
    return "\n".join(lines) + "\n"


def _against(rows: Sequence[Row]) -> Iterator[str]:
    for verdict in FAILING:
        found: Counter[str] = Counter()
        for row in rows:
            if row["verdict"] == verdict:
                found[row["operator"]] += int(row["cases"])
        if found:
            yield f"{verdict}: " + ", ".join(f"{name} {count}" for name, count in sorted(found.items()))


def _rows(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main(arguments: Sequence[str]) -> int:
    """The command."""
    for path in write_counts(ROOT, map(Path, arguments)):
        print(f"written: {path.relative_to(ROOT)}; `make docs` writes the page")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

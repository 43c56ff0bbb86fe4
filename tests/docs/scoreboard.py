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
from collections.abc import Iterable, Sequence
from pathlib import Path

from assay.verify.conform.cases import VERDICTS
from tests.docs.campaigns import campaign_lines
from tests.docs.failing import OF_CAMPAIGNS, line, of_conformance, rows, table
from tests.places import ROOT

COUNTS = "specs/conformance"
PAGE = "specs/scoreboard.md"
FIELDS = ("backend", "version", "onnx", "suite", "operator", "verdict", "cases")
Row = dict[str, str]

HEAD = """# Scoreboard

What came of the cases with known results for each backend: ONNX's own and ours
([verify, "Conformance"](verify.md#conformance)). *wrong*, *implausible*, *died* and *late* speak against a backend.
*refused* is what it says that it does not take, and *not judged* is about us. A run that was not finished has fewer
cases.

This page is generated from `specs/conformance/`, which `python -m tests.docs.scoreboard DIR` writes of what
`assay conform --backend NAME --resume DIR` has kept.
"""

AGAINST = """## What speaks against them

Each case is its operator's own, so the smallest there is or nearly. Each was looked into, and comes to a finding, which
has its clause of the standard, or to a reason. This part is generated from `specs/findings/conformance_failures.csv`,
which is kept by hand.
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
    for name, counts in counted(folders).items():
        path = root / COUNTS / f"{name.replace(':', '-')}.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(counts)
        written.append(path)
    return written


def boards_of(root: Path) -> dict[str, list[Row]]:
    """The counts that there are, by the file's name."""
    return {path.stem: rows(path) for path in sorted((root / COUNTS).glob("*.csv"))}


def scoreboard_page(root: Path) -> str:
    """The page of the counts that there are."""
    boards = boards_of(root)
    verdicts = [v for v in VERDICTS if v != "not judged"]
    lines = [HEAD, line(["backend", "version", "cases", *verdicts, "not judged"]), "|---" * (len(verdicts) + 4) + "|"]
    for board in boards.values():
        counts: Counter[str] = Counter()
        for row in board:
            counts[row["verdict"]] += int(row["cases"])
        shown = [f"{counts[v]:,}" for v in (*verdicts, "not judged")]
        lines.append(line([f"`{board[0]['backend']}`", board[0]["version"], f"{counts.total():,}", *shown]))
    lines += ["", AGAINST, *table(of_conformance(root), "cases", "cases")]
    if (root / OF_CAMPAIGNS).is_file():
        lines += ["", *campaign_lines(root)]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    """The command."""
    for path in write_counts(ROOT, map(Path, arguments)):
        print(f"written: {path.relative_to(ROOT)}; `make docs` writes the page")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

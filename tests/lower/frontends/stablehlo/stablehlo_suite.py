"""StableHLO's own test programs through `assay conform`, each with its own comparison.

    python -m tests.lower.frontends.stablehlo.stablehlo_suite [--write] [REGEX]

prints counts, and with --write replaces specs/stablehlo_cases.csv: the files that are not passed, each with its reason.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterable

from assay.verify.conform.stablehlo_cases import FileResult, checked_files, counts_told, stablehlo_files
from tests.places import SHARED, SPECS

LISTED = SPECS / "stablehlo_cases.csv"
DATA = SHARED / "data" / "stablehlo"
"""Where the programs are, if they are."""
MISSING = "StableHLO's own test programs are not at hand"


def results(pattern: str = "") -> list[FileResult]:
    """What came of each file whose name this expression finds."""
    return list(checked_files(stablehlo_files([DATA]), pattern))


def reasons(found: Iterable[FileResult]) -> dict[str, str]:
    """The files that are not passed, and why."""
    return {r.file: "; ".join(r.reasons) for r in found if r.outcome in ("wrong", "not handled")}


def listed() -> dict[str, str]:
    """The files that are known not to pass."""
    with LISTED.open(newline="") as file:
        return {row["file"]: row["reason"] for row in csv.DictReader(file)}


def main(args: list[str]) -> None:
    """Run what was asked for."""
    patterns = [a for a in args if a != "--write"]
    found = results(patterns[0] if patterns else "")
    print(counts_told(found))
    if "--write" not in args:
        return
    kept = {n: r for n, r in listed().items() if not re.search(patterns[0], n)} if patterns else {}
    with LISTED.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["file", "reason"])
        table.writerows(sorted({**kept, **reasons(found)}.items()))


if __name__ == "__main__":
    main(sys.argv[1:])

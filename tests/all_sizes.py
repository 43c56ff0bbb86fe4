"""What is proved of each operator's kernel, and for which sizes: the table beside the page of operators.

    python -m tests.all_sizes --write       # some minutes: proves all of them anew, and writes specs/all_sizes.csv

A test of the suite proves some anew, one of the campaign all (tests/verify/all_sizes/test_all_sizes_table.py).
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from assay.semantics.ops import OPERATORS
from assay.verify.all_sizes.for_operator import notation_text
from assay.verify.all_sizes.reached import reach, told_reach
from assay.verify.equivalence import REAL
from assay.verify.operator_terms.exhaustion import uses_of

PATH = Path(__file__).resolve().parent.parent / "specs" / "all_sizes.csv"
COLUMNS = ("operator", "for", "notation", "said")


def row_of(name: str) -> dict[str, str]:
    """What the table says of one operator, found anew."""
    op = OPERATORS[name]
    found = [reach(op, e) for e in uses_of(op)]
    if all(r.general.holds for r in found):
        sizes = "all sizes"
    elif any(r.general.holds for r in found):
        sizes = "all sizes in some examples"
    else:
        shown = [r.notion >= REAL for r in found]
        sizes = "given sizes" if all(shown) else "small sizes" if any(shown) else "tested"
    lines = notation_text(found[0].general.use)
    return dict(zip(COLUMNS, (name, sizes, "; ".join(lines), told_reach(found)), strict=True))


def table() -> dict[str, dict[str, str]]:
    """The table as it is kept, by operator."""
    with PATH.open(encoding="utf-8", newline="") as file:
        return {row["operator"]: row for row in csv.DictReader(file)}


def write() -> None:
    """Prove all anew."""
    with PATH.open("w", encoding="utf-8", newline="") as file:
        out = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        out.writeheader()
        for name, op in OPERATORS.items():
            if not op.view:
                out.writerow(row_of(name))
                file.flush()


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    write()

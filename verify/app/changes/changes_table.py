"""What has changed between two reports, on the terminal (specs/verify.md, "Two reports")."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from assay.verify.app.changes.compared import PARTS, Changes
from assay.verify.app.terminal import Screen, cell

MOST_OF_A_PART = 12
"""Changes of one part that are shown; the rest is in --json and --report."""
MOST_LETTERS = 240
"""Letters of one cell."""
STYLES = {"worse": "bold red", "better": "green", "other": ""}


def print_changes(out: Screen, changes: Changes, quiet: bool) -> None:
    """A table of the changes, those that are worse first, and what they come to; with `quiet` that alone, and what is
    worse."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for title in ("", "", "then", "now"):
        table.add_column(title, overflow="fold")
    left: list[str] = []
    for part in PARTS:
        own = sorted((c for c in changes.found if c.part == part), key=lambda c: list(STYLES).index(c.weight))
        shown = [c for c in own if c.weight == "worse" or not quiet][:MOST_OF_A_PART]
        for c in shown:
            word = part if c.weight == "other" else f"{part}, {c.weight}"
            table.add_row(
                Text(word, STYLES[c.weight]), cell(c.name), *(cell(_short(t) or "-") for t in (c.then, c.now))
            )
        if len(own) > len(shown) and not quiet:
            left.append(f"{len(own) - len(shown)} of {part}")
    if table.row_count:
        out.print(table)
    if left:
        out.print(f"({', '.join(left)} more; all with --json or --report)")
    out.print(cell(changes.said, {True: "green", False: "bold red", None: "bold yellow"}[changes.holds]))


def _short(text: str) -> str:
    half = MOST_LETTERS // 2
    return text if len(text) <= MOST_LETTERS else f"{text[:half]} ... {text[-half:]}"

"""The generated pages of specs/: operators, labels, rows, the grammar, the scoreboard, and
what findings say of the standard.
Chapter: specs/verify.md, "Generated pages".

Each page is a function of the records, the sources or the tests, so that none is kept by hand. A page that is stale
fails a test; `make docs` writes them all.
"""

from __future__ import annotations

from pathlib import Path

from tests.docs.findings import PAGES, findings_page
from tests.docs.grammar import PAGE as GRAMMAR, grammar_page
from tests.docs.labels import labels_page
from tests.docs.operator_pages import operator_pages
from tests.docs.operators import operators_page
from tests.docs.rows import rows_page
from tests.docs.scoreboard import COUNTS, PAGE, scoreboard_page


def pages(root: Path) -> dict[Path, str]:
    """The text of every generated page, by its path. `root` is the top of the repository."""
    return {
        root / "specs" / "operators.md": operators_page(),
        root / "specs" / "labels.md": labels_page(root),
        root / "specs" / "rows.md": rows_page(root),
        root / GRAMMAR: grammar_page(),
        **_of_operators(root),
        **({root / PAGE: scoreboard_page(root)} if (root / COUNTS).is_dir() else {}),
        **{p: findings_page(p) for n in PAGES if (p := root / "specs" / "findings" / n).is_file()},
    }


def _of_operators(root: Path) -> dict[Path, str]:
    """The pages of the operators, where the folder for them is."""
    folder = root / "specs" / "operators"
    return {root / "specs" / place: text for place, text in operator_pages().items()} if folder.is_dir() else {}


def left_behind(root: Path) -> list[Path]:
    """The pages of operators that are no more."""
    made = _of_operators(root)
    return [p for p in sorted((root / "specs" / "operators").glob("*.md")) if p not in made]


def stale(root: Path) -> list[Path]:
    """The pages whose file is missing or says something else, and those of nothing."""
    made = [p for p, text in pages(root).items() if not p.is_file() or p.read_text(encoding="utf-8") != text]
    return [*made, *left_behind(root)]


def write(root: Path) -> list[Path]:
    """Write the pages that are stale, and remove those of nothing; these are returned."""
    texts = pages(root)
    changed = stale(root)
    for path in changed:
        if path in texts:
            path.write_text(texts[path], encoding="utf-8")
        else:
            path.unlink()
    return changed

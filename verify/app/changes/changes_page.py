"""What has changed between two reports, as one HTML page (specs/verify.md, "Two reports")."""

from __future__ import annotations

from collections.abc import Iterator

from assay.verify.app.changes.compared import PARTS, Change, Changes
from assay.verify.app.report.frame import html_page
from assay.verify.app.report.judged import STYLES
from assay.verify.app.report.plot import html_escaped
from assay.verify.evidence import plural

MARK = "<!doctype html>\n<!-- written by assay diff --report -->"
"""How every page begins."""
MOST_CHANGES = 5_000
"""How many changes of one part a page has."""
TITLES = {
    "run": "The run itself", "line": "Lines", "verdict": "Verdicts", "finding": "Findings", "tensor": "Tensors",
    "kernel": "Kernels", "pool": "Plan: pools", "step": "Plan: calls", "buffer": "Plan: buffers",
}  # fmt: skip


def changes_page(then: str, now: str, changes: Changes) -> str:
    """The text of the page."""
    kind = {True: "good", False: "bad", None: "unknown"}[changes.holds]
    names = f"{html_escaped(then)} and {html_escaped(now)}"
    body = [f"<header><h1>What has changed</h1><p>assay diff of {names}</p></header>"]
    body.append(f'<p class="{kind}">{html_escaped(changes.said, 2000)}</p>')
    for part in PARTS:
        body += _part(part, [c for c in changes.found if c.part == part])
    return html_page(MARK, f"{then}, {now}: assay diff", body, STYLES, ("page.js", "tables.js"))


def _part(part: str, changes: list[Change]) -> Iterator[str]:
    if not changes:
        return
    yield f"<section id={part}><h2>{TITLES[part]}</h2><p class=note>{plural(len(changes), 'change')}.</p>"
    yield "<div class=scroll><table class='changes sortable'><thead><tr>"
    yield "".join(f'<th scope="col">{head}' for head in (part, "is", "then", "now")) + "</tr></thead><tbody>"
    ranked = sorted(changes, key=lambda c: ("worse", "better", "other").index(c.weight))
    for c in ranked[:MOST_CHANGES]:
        yield (
            f'<tr><th scope="row">{html_escaped(c.name)}<td class="word {c.weight}">{c.weight}'
            f"<td>{html_escaped(c.then, 2000)}<td>{html_escaped(c.now, 2000)}</tr>"
        )
    yield "</tbody></table></div>"
    if len(changes) > MOST_CHANGES:
        yield f"<p>{len(changes) - MOST_CHANGES:,} more are left out; report.json has them.</p>"
    yield "</section>"

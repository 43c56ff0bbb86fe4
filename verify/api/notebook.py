"""A table of a run and a memory plan as HTML for notebooks (specs/verify.md, "From Python"). Names come from strangers:
all of them are escaped."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from html import escape

from assay.semantics.memory import Plan, Problem
from assay.verify.app.check import Line
from assay.verify.app.summary import run_summary
from assay.verify.app.terminal import printable
from assay.verify.evidence import Evidence, plural

MOST_PICTURE = 200_000
"""Characters of a picture that is put into a notebook; a longer one is left to `MemoryPlan.draw`."""
COLOURS = {True: "#1a7f37", False: "#cf222e", None: "#9a6700"}
LEFT = "text-align: left; vertical-align: top"


def report_html(lines: Iterable[Line]) -> str:
    """The lines of a run as a table, and what they come to."""
    lines = tuple(lines)
    heads = "".join(
        f'<th style="{LEFT}">{name}</th>' for name in ("stage", "verdict", "time", "what was done and shown")
    )
    rows = "".join(map(_row, lines))
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table><p>{_safe(run_summary(lines))}</p>"


def _row(line: Line) -> str:
    said = "; ".join(part for part in (line.did, line.evidence.detail) if part)
    cells = (f"<b>{_safe(line.stage)}</b>", _word(line.evidence), f"{line.seconds:.2f}&nbsp;s", _safe(said))
    return "<tr>" + "".join(f'<td style="{LEFT}">{cell}</td>' for cell in cells) + "</tr>"


def plan_html(problem: Problem, plan: Plan, evidence: Evidence, reached: bool) -> str:
    """How large each pool is and how that is known, and bytes over time as a picture, if it is small."""
    from assay.verify.app.report.maps import plan_picture

    pools = ", ".join(f"{_safe(p.name)}: {plan.sizes.get(p.name, 0)} bytes" for p in problem.pools)
    how = f"{_word(evidence)}: {_safe(evidence.detail)}"
    told = f"<p>{plural(len(problem.buffers), 'buffer')}; {pools}. {how}</p>"
    if not reached:
        told += f'<p style="color: {COLOURS[False]}">it does not fit the capacity</p>'
    picture = plan_picture(problem, plan)
    if len(picture) > MOST_PICTURE:
        return told + "<p>the picture is large: draw(path) writes it</p>"
    data = b64encode(picture.encode()).decode()  # an image of its own: its styles are no styles of the notebook
    return told + f'<img alt="memory map" style="max-width: 100%" src="data:image/svg+xml;base64,{data}">'


def _word(evidence: Evidence) -> str:
    return f'<span style="color: {COLOURS[evidence.holds]}">{_safe(evidence.word)}</span>'


def _safe(text: object) -> str:
    return escape(printable(text))

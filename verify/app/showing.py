"""The table of a run, on the terminal or as JSON (specs/verify.md, "Command line")."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from assay.verify.api.check import Report
from assay.verify.app.answers import answering, write_answer
from assay.verify.app.assumed import Assumption, assumed
from assay.verify.app.check import Line
from assay.verify.app.junit import TestCase, write_junit
from assay.verify.app.summary import run_summary
from assay.verify.app.terminal import Screen, cell
from assay.verify.border.files import require_file_place
from assay.verify.evidence import holds_all
from assay.verify.exits import Exit


def show_run(
    what: str,
    seed: int,
    as_json: bool,
    work: Callable[..., Report],
    junit: Path | None = None,
    trust: bool = False,
    quiet: bool = False,
) -> Exit:
    """Do the work, which tells its lines `on_line` and how far it is as `progress`: print each line as it comes and
    what they come to, or all as JSON at the end, and as JUnit's XML to `junit`; with `trust` what the lines rest on,
    too; `quiet` only what they come to, and lines that do not hold. The exit code."""
    if junit is not None:
        require_file_place(junit)
    out = Screen(stderr=as_json)
    done: list[Line] = []
    answer: dict[str, Any] = {}  # empty until the first line is begun: what is wrong before then has no lines
    with answering(answer), status() as tell:

        def progress(stage: str, part: int, total: int) -> None:
            if not answer:
                answer.update(model=what, seed=seed, holds=None, lines=[])
            tell(f"{stage} {part}/{total}" if total else stage)

        def on_line(line: Line) -> None:
            progress(line.stage, 0, 0)
            done.append(line)
            answer["lines"].append(line.as_data())
            answer["holds"] = holds_all(line.evidence for line in done)
            if not as_json and not (quiet and line.evidence.holds):
                print_line(out, line)

        found = work(on_line=on_line, progress=progress)
        if junit is not None:
            write_junit(junit, f"assay check {what}", map(line_case, found.lines))
        if trust:
            rests = assumed(found.lines)
            answer["assumed"] = [a.as_data() for a in rests]
        answer["summary"] = run_summary(found.lines)
    if as_json:
        write_answer(answer)
        return found.exit
    if trust and not quiet:
        print_assumed(out, rests)
    out.print(answer["summary"])
    return found.exit


def line_case(line: Line) -> TestCase:
    """A line of the table as a test: one that does not hold has failed, one that decides nothing is skipped."""
    evidence = line.evidence
    outcome = evidence.outcome or {True: "right", False: "wrong", None: "undecided"}[evidence.holds]
    return TestCase("assay check", line.stage, outcome, evidence.detail, line.seconds)


def print_line(out: Screen, line: Line) -> None:
    """One line of the table: stage, verdict, time, what was done and what was shown."""
    holds = line.evidence.holds
    style = "green" if holds else "bold yellow" if holds is None else "bold red"
    said = "; ".join(part for part in (line.did, line.evidence.detail) if part)
    row = Table.grid(padding=(0, 2, 0, 0))
    row.add_column(width=11, style="bold")
    row.add_column(width=max(7, len(line.evidence.word)), style=style)
    row.add_column(width=8, justify="right", style="dim")
    row.add_column(overflow="fold")
    row.add_row(Text(line.stage), line.evidence.word, f"{line.seconds:.2f} s", cell(said))
    out.print(row)


def print_assumed(out: Screen, rests: Iterable[Assumption]) -> None:
    """What the lines rest on, and where it stands."""
    table = Table("assumed", "place", show_edge=False, pad_edge=False)
    for column in table.columns:
        column.overflow = "fold"
    for a in rests:
        table.add_row(cell(a.sentence), cell(a.place))
    out.print(table)


@contextmanager
def status() -> Iterator[Callable[[str], None]]:
    """Says what is being done on a line of the terminal; nothing where there is no terminal."""
    console = Screen(stderr=True)
    if not console.is_terminal:
        yield lambda text: None
        return
    with console.status("starting") as line:
        yield lambda text: line.update(escape(text))

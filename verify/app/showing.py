"""The table of a run, on the terminal or as JSON (specs/verify.md, "Command line")."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from assay.verify.app.answers import answering, write_answer
from assay.verify.app.check import Check, Line
from assay.verify.app.terminal import Screen, cell
from assay.verify.evidence import holds_all
from assay.verify.exits import Exit, gravest


def show(
    lines: Iterable[Line],
    run: Check,
    as_json: bool,
    what: str,
    seed: int,
    then: Callable[[list[Line]], None] = lambda lines: None,
) -> Exit:
    """Print the table line by line as it comes (or as JSON at the end), and do what comes `then`; the exit code."""
    out = Screen(stderr=as_json)
    done: list[Line] = []
    answer: dict[str, Any] = {"model": what, "seed": seed, "holds": None, "lines": []}
    with answering(answer), progress(run):
        for line in lines:
            done.append(line)
            answer["lines"].append(line.as_data())
            answer["holds"] = holds_all(line.evidence for line in done)
            if not as_json:
                print_line(out, line)
        then(done)
    if as_json:
        write_answer(answer)
    return gravest(line.evidence.exit for line in done)


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


@contextmanager
def progress(run: Check) -> Iterator[None]:
    """A line on the terminal that says what is being done; nothing where there is no terminal."""
    console = Screen(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status("starting") as status:

        def tell(stage: str, done: int, total: int) -> None:
            status.update(escape(f"{stage} {done}/{total}" if total else stage))

        run.progress = tell
        yield

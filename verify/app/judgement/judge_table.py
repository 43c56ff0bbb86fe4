"""What `assay judge` prints (specs/verify.md, "judge")."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

from rich.table import Table
from rich.text import Text

from assay.verify.app.answers import answering, write_answer
from assay.verify.app.judgement.judge_baseline import read_baseline
from assay.verify.app.judgement.judge_json import backend_data, judgement_data
from assay.verify.app.junit import TestCase, write_junit
from assay.verify.app.showing import status
from assay.verify.app.terminal import Screen, cell, printable
from assay.verify.border.files import require_file_place
from assay.verify.evidence import listed
from assay.verify.exits import Exit
from assay.verify.judge.judgement import Judgement
from assay.verify.judge.outcome import GRAVEST, BackendVerdict, SampleVerdict, TensorError

MOST_ROWS = 24
"""Rows of a table; the rest is in --json, --junit and --report."""
NARROW = 92
"""Below so many columns the columns of a table stand closer."""
LEAST = 10
"""Letters of a name that are shown however narrow the screen is."""
STYLES = {"right": "green", "open": "green", "wrong": "bold red", "implausible": "bold red", "died": "bold red",
          "late": "bold red"}  # fmt: skip
LEGEND = (
    "error, bound, mean: in units in the last place; any: the bound excludes nothing, the error is from the middle of"
    " correct runs; spread: how many times as far off as correct runs are"
)


@dataclass(frozen=True)
class Places:
    """Where a judgement is written beside the terminal, and what it is compared with; `quiet`: of the terminal only the
    closing lines are wanted."""

    junit: Path | None = None
    baseline: Path | None = None
    quiet: bool = False


def show_judgement(what: str, as_json: bool, to: Places, work: Callable[..., Judgement]) -> Exit:
    """Do the work and print what it finds, or write it as JSON at the end; the exit code."""
    out = Screen(stderr=as_json)
    if to.junit is not None:
        require_file_place(to.junit)
    baseline = read_baseline(to.baseline) if to.baseline is not None else None
    answer: dict[str, Any] = {}
    with answering(answer), status() as tell:

        def progress(stage: str, part: int, total: int) -> None:
            tell(f"{stage} {part}/{total}" if total else stage)

        def on_start(begun: Judgement) -> None:
            answer.update(judgement_data(what, begun))
            if baseline is not None:
                baseline.require_same(answer["digest"])
            if not as_json and not to.quiet:
                for line in begun.opening():
                    out.print(line)

        def on_verdict(verdict: BackendVerdict) -> None:
            answer["backends"].append(backend_data(verdict))
            if not as_json:
                print_verdict(out, verdict, what, to.quiet)

        found = work(on_start=on_start, on_verdict=on_verdict, progress=progress)
        if to.junit is not None:
            write_junit(to.junit, f"assay judge {what}", judged_cases(found.verdicts))
    data = judgement_data(what, found)
    compared = baseline.compared(data["backends"]) if baseline is not None else None
    code = found.exit if compared is None else compared.exit
    if as_json:
        write_answer({**data, **({"baseline": compared.as_data()} if compared else {}), "exit": int(code)})
        return code
    if not to.quiet:
        print_end(out, found.verdicts)
    for line in compared.lines() if compared else ():
        out.print(line)
    return code


# --- tables -----------------------------------------------------------------------------------------------------------

Row = tuple[SampleVerdict, TensorError | None]


def table_rows(verdict: BackendVerdict) -> list[Row]:
    """Each set of inputs with each output, the gravest first."""
    rows: list[Row] = [(s, e) for s in verdict.samples for e in (s.errors or (None,))]
    return sorted(rows, key=lambda row: GRAVEST.index(word(row)))


def word(row: Row) -> str:
    """The verdict on one row."""
    sample, error = row
    return sample.outcome if error is None else sample.of_output(error.tensor)


def print_verdict(out: Screen, verdict: BackendVerdict, what: str, quiet: bool = False) -> None:
    """The table of one backend, unless `quiet`, and its closing line; of TVM, with what looks for the pass."""
    if not quiet:
        _print_rows(out, verdict)
    out.print(cell(verdict.closing(), STYLES.get(verdict.outcome, "bold yellow")))
    if verdict.outcome in ("wrong", "implausible") and verdict.name.partition(":")[0] == "tvm":
        command = f"assay check {quote(what)} --backend {quote(verdict.name)} --per-pass"
        out.print(cell(f"which pass it is, on --inputs or random ones: {command}"))


def _print_rows(out: Screen, verdict: BackendVerdict) -> None:
    rows = table_rows(verdict)
    out.print(Text(f"\n{printable(verdict.name)}", "bold"))
    if rows:
        out.print(_table(out.width, rows[:MOST_ROWS]))
    if len(rows) > MOST_ROWS:
        left = [word(r) for r in rows[MOST_ROWS:]]
        counts = ", ".join(f"{left.count(o)} {o}" for o in GRAVEST if o in left)
        out.print(f"({len(left)} rows more: {counts}; all with --json)")
    for sample in verdict.samples:
        for piece in sample.pieces[:3]:
            out.print(f"  {sample.sample}: {piece.title}: {piece.verdict}")


def _table(width: int, rows: Sequence[Row]) -> Table:
    gap = 2 if width >= NARROW else 1
    titles = ("inputs", "verdict", "output", "worst at", "error", "bound", "mean", "spread")
    table = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False)
    for i, title in enumerate(titles):
        table.add_column(title, justify="right" if i > 2 else "left", no_wrap=True)
    cells = [_cells(row) for row in rows]
    used = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
    room = max(width - sum(used) + used[2] - gap * (len(titles) - 1), LEAST)
    for inputs, outcome, output, *numbers in cells:
        table.add_row(inputs, Text(outcome, STYLES.get(outcome, "yellow")), middle(output, room), *numbers)
    return table


def middle(name: str, room: int) -> Text:
    """A name that fits, cut in its middle; what is in brackets in it is no markup."""
    if len(name) <= room:
        return Text(name)
    return Text(f"{name[: (room - 1) // 2]}…{name[-(room - 1 - (room - 1) // 2) :]}")


def _cells(row: Row) -> tuple[str, ...]:
    """A row as texts."""
    sample, error = row
    inputs = printable(sample.sample)
    if error is None:
        return inputs, sample.outcome, "", "", "", "", "", ""
    at = ",".join(map(str, error.index))
    times = "" if error.times is None else f"{error.times:.2g} x"
    return inputs, word(row), printable(error.tensor), at, *map(ulps, (error.error, error.bound, error.mean)), times


def ulps(number: float) -> str:
    """A distance in units in the last place."""
    return "any" if number == float("inf") else f"{number:.2g}"


def print_end(out: Screen, verdicts: Sequence[BackendVerdict]) -> None:
    """The mean errors of several backends beside each other, and what the columns mean."""
    judged = [v for v in verdicts if any(s.errors for s in v.samples)]
    if not judged:
        return
    if len(judged) > 1:
        out.print(Text("\nmean error of each", "bold"))
        out.print(_beside(out.width, judged))
    out.print(Text(f"\n{LEGEND}", "dim"))


def _beside(width: int, judged: Sequence[BackendVerdict]) -> Table:
    found: dict[tuple[str, str], dict[int, float]] = {}
    for i, verdict in enumerate(judged):
        for sample in verdict.samples:
            for e in sample.errors:
                found.setdefault((sample.sample, e.tensor), {})[i] = e.mean
    ranked = sorted(found.items(), key=lambda item: -max(item[1].values()))
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("inputs", no_wrap=True)
    table.add_column("output", no_wrap=True)
    for verdict in judged:
        table.add_column(cell(verdict.name), justify="right", overflow="fold")
    for (inputs, tensor), means in ranked[:MOST_ROWS]:
        row = [ulps(means[i]) if i in means else "" for i in range(len(judged))]
        table.add_row(cell(inputs), middle(printable(tensor), max(12, width // 3)), *row)
    return table


# --- JUnit ------------------------------------------------------------------------------------------------------------


def judged_cases(verdicts: Sequence[BackendVerdict]) -> Iterator[TestCase]:
    """A test for each backend, set of inputs and output; one for a backend that gives nothing."""
    for verdict in verdicts:
        if verdict.ended:
            yield TestCase(verdict.name, "the model", verdict.ended, verdict.why, verdict.seconds)
        for sample in verdict.samples:
            seconds = verdict.seconds / max(len(verdict.samples), 1)
            if not sample.errors:
                yield TestCase(verdict.name, sample.sample, sample.outcome, sample.detail, seconds)
            for error in sample.errors:
                outcome = sample.of_output(error.tensor)
                yield TestCase(verdict.name, f"{sample.sample}: {error.tensor}", outcome, _why(sample, error), seconds)


def _why(sample: SampleVerdict, error: TensorError) -> str:
    """What a test says that has not passed: the worst element, where something is wrong, and the rule."""
    told = f"{error.tensor} element {error.index} is {error.got!r}, {ulps(error.error)} ulp from {error.middle!r}"
    named = [f.title for f in sample.pieces if f.verdict.outcome == "wrong"]
    place = sample.culprit or listed(named)
    parts = (sample.detail, f"in {place}" if place else "", sample.rule, told)
    return "; ".join(p for p in parts if p)

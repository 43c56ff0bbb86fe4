"""What `assay judge` prints, or writes as JSON (specs/verify.md, "judge")."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from assay.verify.api.judge import Judgement
from assay.verify.app.answers import answering, write_answer
from assay.verify.app.showing import status
from assay.verify.app.terminal import Screen, cell
from assay.verify.backends import Subject
from assay.verify.evidence import plural
from assay.verify.exits import Exit
from assay.verify.judge.outcome import BackendVerdict, SampleVerdict, TensorError, as_data
from assay.verify.judge.samples import Sample

MOST_ROWS = 24
"""Rows of the table of one backend; the rest is in --json."""
STYLES = {"right": "green", "open": "green", "wrong": "bold red", "implausible": "bold red", "died": "bold red"}


def show_judgement(what: str, as_json: bool, work: Callable[..., Judgement]) -> Exit:
    """Do the work and print what it finds, or write it as JSON at the end; the exit code."""
    out = Screen(stderr=as_json)
    answer: dict[str, Any] = {}
    with answering(answer), status() as tell:

        def progress(stage: str, part: int, total: int) -> None:
            tell(f"{stage} {part}/{total}" if total else stage)

        def on_start(subject: Subject, chosen: Mapping[str, int], samples: Sequence[Sample]) -> None:
            answer.update(model=what, holds=None, sizes=dict(chosen), samples=[s.name for s in samples], backends=[])
            if not as_json:
                for line in opening(subject, chosen, samples):
                    out.print(line)

        def on_verdict(verdict: BackendVerdict) -> None:
            answer["backends"].append(
                {"name": verdict.name, "outcome": verdict.outcome, "closing": verdict.closing(), **as_data(verdict)}
            )
            if not as_json:
                print_verdict(out, verdict)

        found = work(on_start=on_start, on_verdict=on_verdict, progress=progress)
    answer["holds"] = found.holds
    if as_json:
        write_answer(answer)
    return found.exit


def opening(subject: Subject, chosen: Mapping[str, int], samples: Sequence[Sample]) -> list[str]:
    """What is judged on what."""
    operators = {n.op_type for n in subject.model.graph.node}
    lines = [f"{plural(len(subject.model.graph.node), 'node')} of {plural(len(operators), 'operator')}"]
    if chosen:
        sizes = ", ".join(f"{name}={size}" for name, size in chosen.items())
        lines[0] += f"; sizes chosen: {sizes} (others with --dim)"
    lines.append(f"{plural(len(samples), 'set')} of inputs: {', '.join(s.name for s in samples)}")
    return lines


def print_verdict(out: Screen, verdict: BackendVerdict) -> None:
    """The table of one backend and its closing line."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for name in ("inputs", "verdict", "output"):
        table.add_column(name, overflow="fold")
    for name in ("worst at", "error", "bound", "mean", "spread"):
        table.add_column(name, justify="right", no_wrap=True)
    rows = [(s, e) for s in verdict.samples for e in (s.errors or (None,))]
    for sample, error in rows[:MOST_ROWS]:
        table.add_row(*_row(sample, error))
    out.print(Text(f"\n{verdict.name}", "bold"))
    if rows:
        out.print(table)
    if len(rows) > MOST_ROWS:
        out.print(f"({len(rows) - MOST_ROWS} rows more with --json)")
    for sample in verdict.samples:
        for piece in sample.pieces[:3]:
            out.print(f"  {sample.sample}: {piece.title}: {piece.verdict}")
    out.print(cell(verdict.closing(), STYLES.get(verdict.outcome, "bold yellow")))


def _row(sample: SampleVerdict, error: TensorError | None) -> tuple[Text | str, ...]:
    said = Text(sample.outcome, STYLES.get(sample.outcome, "yellow"))
    if error is None:
        return cell(sample.sample), said, "", "", "", "", "", ""
    at = ",".join(map(str, error.index))
    times = "" if error.times is None else f"{error.times:.2g} x"
    return cell(sample.sample), said, cell(error.tensor), at, *map(_ulps, (error.error, error.bound, error.mean)), times


def _ulps(number: float) -> str:
    """A distance in units in the last place."""
    return "any" if number == float("inf") else f"{number:.2g}"

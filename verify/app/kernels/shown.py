"""What is told of a run with `--kernels` (specs/verify.md, "Kernels for unknown sizes")."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from assay.verify.app.kernels.run import KernelRun
from assay.verify.app.program_run import ProgramRun
from assay.verify.app.run_shown import run_data, tell_run, tensor_data
from assay.verify.app.terminal import Screen

NAMES = ("function", "way")
"""The columns of the table that are no numbers."""
LEAST = 24
"""Characters that such a column has in any case."""


def tell_kernels(done: KernelRun, out: Screen) -> None:
    """Print the runs, and the table of the kernels; raises what ended a run."""
    if len(done.runs) == 1:
        tell_run(replace(done.runs[0], trap=None), out)
    else:
        for one in done.runs:
            made = ", ".join(f"{t['name']} {tuple(t['shape'])} {t['digest'][:16]}" for t in _outputs(one))
            sizes = ", ".join(f"{n} = {v}" for n, v in one.sizes.items())
            out.print(f"{sizes or 'run'}: {made if one.trap is None else one.trap}")
    statistics = done.program.dispatcher.statistics
    out.print(f"kernels: {done.choices}")
    for line in table_lines(list(statistics.rows()), out.width):
        out.print(line)
    for note in statistics.said():
        out.print(note)
    if done.trap is not None:
        raise done.trap


def table_lines(rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """The rows below one another, as wide as they must be: where names are too long for a width they go on in the next
    line, behind a `_` or a comma."""
    names = [k for k, title in enumerate(rows[0]) if title in NAMES]
    sizes = [max(map(len, column)) for column in zip(*rows, strict=True)]
    room = (width - sum(n + 1 for k, n in enumerate(sizes) if k not in names)) // len(names) - 1
    room = max(room, LEAST)
    cells = [[pieces(t, room) if k in names else [t] for k, t in enumerate(row)] for row in rows]
    for k in names:
        sizes[k] = max(len(t) for row in cells for t in row[k])
    for row in cells:
        for line in zip_longest(*row, fillvalue=""):
            put = (t.ljust(n) if k in names else t.rjust(n) for k, (t, n) in enumerate(zip(line, sizes, strict=True)))
            yield " ".join(put).rstrip()


def pieces(name: str, most: int) -> list[str]:
    """A name in pieces of at most so many characters, as far as it has places to break it."""
    lines = [""]
    for part in re.split("(?<=[_,])", name):
        if lines[-1] and len(lines[-1] + part) > most:
            lines.append("")
        lines[-1] += part
    return lines


def answer_kernels(done: KernelRun, answer: dict[str, Any]) -> None:
    """Add what was found to the answer of the command; raises what ended a run."""
    answer.update(run_data(done.runs[-1]))
    answer["runs"] = [{"sizes": dict(r.sizes), "outputs": _outputs(r)} for r in done.runs]
    answer["kernels"] = {
        "choice": str(done.choices),
        "seconds": round(done.seconds, 6),
        "loaded": len(done.program.dispatcher.objects),
        **done.program.dispatcher.statistics.data(),
    }
    answer["holds"] = done.trap is None
    if done.trap is not None:
        raise done.trap


def _outputs(one: ProgramRun) -> list[dict[str, Any]]:
    """The outputs of a run by name, shape and digest."""
    if one.trap is not None:
        return []
    found = []
    for name, array in one.outputs.items():
        data = tensor_data(name, array)
        data.pop("values", None)
        found.append(data)
    return found

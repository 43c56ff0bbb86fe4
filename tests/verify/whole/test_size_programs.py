"""Small programs of unknown sizes through `run` and `check` (specs/verify.md, "Small programs")."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.verify.whole.command_trials import Trial, command
from tests.verify.whole.size_programs import Run, Sized, programs

ALL = programs()
CODES = {"": 0, "said": 0, "trap": 1, "invalid": 2}


def ran(path: Path, run: Run, folder: Path) -> Trial:
    """`assay run` on the inputs, which leaves its outputs in out.npz."""
    np.savez(folder / "in.npz", **run.inputs)
    given = ("--inputs", str(folder / "in.npz")) if run.inputs else ()
    kept = () if run.word == "said" else ("--output", str(folder / "out.npz"))
    return command(0, ("run", str(path), *given, *kept))


def wrong(path: Path, run: Run, folder: Path) -> str:
    """What is not as the table says; "" if all is."""
    done = ran(path, run, folder)
    if done.code != CODES[run.word]:
        return f"exit {done.code}: {done.out}{done.err}"
    if run.word:
        word = {"trap": f"trap ({run.of})", "invalid": f"[{run.of}"}.get(run.word, run.of)
        return "" if word in " ".join((done.out + done.err).split()) else f"{word} is not said: {done.out}{done.err}"
    with np.load(folder / "out.npz") as found:
        got = list(found.values())
    if [g.shape for g in got] != [w.shape for w in run.results]:
        return f"shapes {[g.shape for g in got]}, not {[w.shape for w in run.results]}"
    near = (np.allclose(g, w, rtol=1e-5, atol=1e-6) for g, w in zip(got, run.results, strict=True))
    return "" if all(near) else f"{got}, not {list(run.results)}"


@pytest.mark.row("J11", "J12", "J15", "J16", "J18")
@pytest.mark.parametrize("program", ALL, ids=lambda p: p.name)
def test_a_program_gives_what_the_table_says(program: Sized, tmp_path: Path) -> None:
    path = program.write(tmp_path)
    assert program.runs
    assert [w for r in program.runs if (w := wrong(path, r, tmp_path))] == []

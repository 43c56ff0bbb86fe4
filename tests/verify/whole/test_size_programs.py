"""Small programs of unknown sizes through `run` and `check` (specs/verify.md, "Small programs")."""

from __future__ import annotations

from dataclasses import replace
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


SAMPLE = (
    "any_argwhere and what follows it",
    "any_batch_matmul",
    "any_broadcast of two open sizes",
    "any_concat",
    "all_class_nms without boxes",
    "any_pool2d",
    "any_reshape with -1 before 0",
    "any_topk of none of an empty vector",
    "any_where",
    "count_loop",
    "dynamic_to_static_tile",
    "loop_free_var",
    "tuple_fst",
    "vm_reshape_tensor",
)
"""What is lowered whole in every run of the tests; what is refused is quick, and the others are for the campaign."""


def marks(program: Sized) -> list[pytest.MarkDecorator]:
    return [] if program.says != "0" or program.name in SAMPLE else [pytest.mark.campaign]


@pytest.mark.row("J11", "J12", "J15", "J16", "J17", "J18")
@pytest.mark.parametrize("program", ALL, ids=lambda p: p.name)
def test_a_program_gives_what_the_table_says(program: Sized, tmp_path: Path) -> None:
    path = program.write(tmp_path)
    assert program.runs
    assert [w for r in program.runs if (w := wrong(path, r, tmp_path))] == []


@pytest.mark.row("J11", "J13", "J15", "J17")
@pytest.mark.parametrize("program", [pytest.param(p, id=p.name, marks=marks(p)) for p in ALL])
def test_check_says_what_the_table_says(program: Sized, tmp_path: Path) -> None:
    """All stages to the C, which is run at several sizes; to bytecode, where no plan can have it for the reason of a
    label; or the label with which the program is refused."""
    done = command(0, ("check", str(program.write(tmp_path))))
    if program.says == "0":
        assert (done.code, done.wrong, done.err) == (0, "", ""), done.out + done.err
    elif program.says.startswith("vm "):
        assert (done.code, done.wrong, done.err) == (0, "", ""), done.out + done.err
        assert "no plan can have it" in done.out and f"[{program.says[3:]}]" in done.out, done.out
    else:
        assert done.code == 2 and done.label.startswith(program.says) and "FAILS" not in done.out, done.out + done.err


@pytest.mark.parametrize(
    ("name", "results"),
    [("count_loop", (np.array(1),)), ("any_pool2d", (np.zeros((1, 2, 2, 3)),) * 2), ("any_where", (np.zeros((2, 1)),))],
)
def test_what_is_not_as_the_table_says_is_seen(name: str, results: tuple[np.ndarray, ...], tmp_path: Path) -> None:
    program = next(p for p in ALL if p.name == name)
    path, run = program.write(tmp_path), program.runs[0]
    assert wrong(path, run, tmp_path) == ""
    assert wrong(path, replace(run, results=results), tmp_path) != ""
    assert "exit 0" in wrong(path, replace(run, results=(), word="trap", of="shape"), tmp_path)


def test_names_are_distinct_and_those_that_are_named_are_there() -> None:
    names = {p.name for p in ALL}
    assert len(names) == len(ALL) >= 135 and {*SAMPLE} <= names

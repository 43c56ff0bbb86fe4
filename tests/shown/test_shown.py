"""Each row of specs/rows.csv through a command, on a program of its own (specs/verify.md, "Rows through commands")."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.rows import read_rows
from tests.places import SPECS
from tests.shown import (
    constants,
    devices,
    executables,
    kernels,
    language,
    memory,
    optional,
    order,
    passes,
    plans,
    running,
    sizes,
    unknown,
    unshown,
)
from tests.shown.case import Shown, missing, run

CASES = [
    *passes.SHOWN,
    *devices.SHOWN,
    *executables.SHOWN,
    *kernels.SHOWN,
    *constants.SHOWN,
    *language.SHOWN,
    *memory.SHOWN,
    *optional.SHOWN,
    *order.SHOWN,
    *plans.SHOWN,
    *running.SHOWN,
    *sizes.SHOWN,
    *unknown.SHOWN,
]

NO_COMMAND = {
    "A10": "names from several threads: a property of the generator, which a command uses on one",
    "A19": (
        "bytes at each call are annotated by a pass that is called from Python only; the map of memory of --report is"
        " near it"
    ),
    "A21": "parts are extracted by passes that are called from Python only",
    "C3": "equality is asked from Python; the line devices of check uses it to compare plans",
    "C11": "the table shows that views of a constant are accepted; schedules are called from Python only",
    "C12": "constants are handed to an external compiler from Python only",
    "R25": "tuning and its database are not built",
    "R28": "it needs a scheduler and a worker of Dask, which tests/verify/backends/test_remote.py starts",
    "R34": "`dump` is called from Python; `--dump` uses it for planned programs only",
    "V19": "the map is a value in Python; dumps print the device of every expression",
    **unshown.REASONS,
}
"""Rows that no command shows, or not all of, with the reason; every other row is in a case."""


@pytest.mark.parametrize(
    "case", [pytest.param(c, id=str(c), marks=pytest.mark.campaign if c.campaign else ()) for c in CASES]
)
def test_a_command_shows_the_row(
    case: Shown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = run(case, tmp_path, monkeypatch, capsys)
    assert missing(case, said, tmp_path) == [], said


def test_a_case_that_does_not_show_its_row_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    case = Shown(
        "V21",
        "check FILE.py --stop-after import --dump DIR",
        devices.ON_TWO,
        ("well-formed", "3 devices"),
        files={"01-import.py": "no such", "x.txt": ""},
    )
    assert missing(case, run(case, tmp_path, monkeypatch, capsys), tmp_path) == [
        "3 devices",
        "01-import.py: no such",
        "x.txt: ",
    ]


def test_cases_name_rows() -> None:
    rows = read_rows(SPECS / "rows.csv")
    assert {i for c in CASES for i in c.rows.split()} | NO_COMMAND.keys() == {*rows}

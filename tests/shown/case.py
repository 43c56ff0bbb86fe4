"""What a case of the table is: rows of specs/rows.csv, a program, commands, and what they must print."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from assay.verify.app.cli import main

HEAD = "@I.ir_module\nclass Module:\n"


@dataclass(frozen=True)
class Shown:
    """Commands on a program of their own, and what shows the rows.

    `rows` are ids, separated by spaces. `command` has one command a line, without the word `assay`; `FILE.py`,
    `FILE.relay`, `FILE.csv` and `FILE.onnx` stand for the program, `DIR` for an empty directory. `program` is its text
    (of a module, what is inside), or a function that writes it. `out` are patterns: each is found in what the
    commands print, spaces counted as one. `code` is the exit code of the last; those before give 0. `files` are
    patterns for files below DIR.
    """

    rows: str
    command: str
    program: str | Callable[[Path], None]
    out: tuple[str, ...] = ()
    code: int = 0
    files: dict[str, str] = field(default_factory=dict)
    campaign: bool = False
    env: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.rows.replace(' ', '+')}: {self.command.splitlines()[0].split()[0]}"


def run(case: Shown, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """What the commands print. AssertionError: an exit code is not the one that is expected."""
    named = re.search(r"\bFILE\.\w+", case.command)
    assert named is not None, case
    (folder / "DIR").mkdir()
    file = folder / named[0]
    if isinstance(case.program, str):
        is_module = file.suffix == ".py" and not case.program.startswith("@")
        file.write_text((HEAD if is_module else "") + case.program.strip("\n") + "\n", "utf-8")
    else:
        case.program(file)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "300")
    for variable, value in case.env.items():
        monkeypatch.setenv(variable, value)
    said = ""
    lines = case.command.strip().splitlines()
    for k, line in enumerate(lines):
        monkeypatch.setattr(sys, "argv", ["assay", *line.split()])
        with pytest.raises(SystemExit) as done:
            main()
        got = capsys.readouterr()
        said += got.out + got.err
        assert int(done.value.code or 0) == (case.code if k == len(lines) - 1 else 0), said
    return re.sub(r"\s+", " ", said)


def missing(case: Shown, said: str, folder: Path) -> list[str]:
    """The patterns that are not found."""
    lost = [p for p in case.out if not re.search(p, said)]
    for name, pattern in case.files.items():
        path = folder / "DIR" / name
        text = path.read_text("utf-8") if path.is_file() else ""
        lost += [] if text and re.search(pattern, text) else [f"{name}: {pattern}"]
    return lost

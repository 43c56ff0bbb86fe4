"""What stands in a guide, run: files are written, commands are given, and must print what the guide shows
(specs/verify.md, "Site").

A fenced block whose first line is a comment with a name (`# mine.py`, `/* main.c */`) is a file. A block `console` has
commands behind `$ `, each with what it prints: `...` stands for anything, and blanks and line ends are all the same.
`$ echo $?` is the exit code. Any other block is for reading, and must be `text`.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from assay.verify.app.cli import main
from tests.places import ROOT

BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"(?:#|//|/\*) ([\w-]+\.\w+)(?: \*/)?$")


@dataclass(frozen=True)
class GuideFile:
    """A file that a guide shows."""

    name: str
    text: str


@dataclass(frozen=True)
class GuideCommand:
    """A command of a guide, and what it shows below."""

    line: str
    shown: str


def steps_of(text: str) -> Iterator[GuideFile | GuideCommand]:
    """Files and commands of a guide, in its order. ValueError: a block that is neither."""
    for kind, body in BLOCK.findall(text):
        first, _, rest = body.partition("\n")
        if kind == "console":
            for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                line, _, shown = part.partition("\n")
                yield GuideCommand(line, shown)
        elif named := NAME.match(first):
            yield GuideFile(named[1], rest if named[1].endswith(".relay") else body)
        elif kind != "text":
            raise ValueError(f"this block is neither a file, nor commands, nor text: {first}")


def agrees(shown: str, printed: str) -> bool:
    """Whether what was printed is what a guide shows."""
    parts = [re.escape(" ".join(part.split())) for part in shown.split("...")]
    pattern = ".*".join(p.replace(r"\ ", " ?") for p in parts)  # a line end may be where the guide has a blank or none
    return re.fullmatch(f" ?{pattern} ?", " ".join(printed.split()), re.DOTALL) is not None


def followed(guide: Path, folder: Path) -> list[str]:
    """Do in a folder what a guide says; each command that prints something else, with what it printed."""
    faults: list[str] = []
    code = 0
    for step in steps_of(guide.read_text("utf-8")):
        if isinstance(step, GuideFile):
            (folder / step.name).write_text(step.text, "utf-8")
            continue
        if step.line == "echo $?":
            printed = str(code)
        elif step.line.startswith("assay "):
            code, printed = _assay(shlex.split(step.line)[1:], folder)
        else:
            code, printed = _other(step.line, folder)
        if not agrees(step.shown, printed):
            faults.append(f"{guide.name}: $ {step.line}\n{printed}")
    return faults


SURROUNDINGS = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "120"}


def _assay(arguments: list[str], folder: Path) -> tuple[int, str]:
    """A command of ours, in this process; modules that it imports of the folder are forgotten."""
    before, out, here = set(sys.modules), io.StringIO(), Path.cwd()
    code: object = 0
    with mock.patch.dict(os.environ, SURROUNDINGS), mock.patch.object(sys, "argv", ["assay", *arguments]):
        os.chdir(folder)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
                main()
        except SystemExit as ended:
            code = ended.code
        finally:
            os.chdir(here)
            for name in set(sys.modules) - before:
                if str(getattr(sys.modules[name], "__file__", None)).startswith(str(folder)):
                    del sys.modules[name]
    return int(code or 0) if not isinstance(code, str) else 1, out.getvalue()


def _other(line: str, folder: Path) -> tuple[int, str]:
    """Another command, in a shell whose `python` is this one."""
    environment = {**os.environ, **SURROUNDINGS, "PYTHONPATH": str(ROOT / ".src")}
    shell = f'python() {{ {shlex.quote(sys.executable)} "$@"; }}\n{line}'
    done = subprocess.run(
        ["bash", "-c", shell], check=False, cwd=folder, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300,
    )  # fmt: skip
    return done.returncode, done.stdout

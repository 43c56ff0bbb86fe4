"""Tests about what a newcomer meets: the documents, and the Makefile on a machine where something is missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from assay.verify.app.cli import main
from tests.test_repository import ROOMS, ROOT

# --- documents ----------------------------------------------------------------------------------------------------


def makefile_targets() -> set[str]:
    return set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def test_the_documents_name_targets_that_exist() -> None:
    for page in ("README.md", "CONTRIBUTING.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        named = set(re.findall(r"(?:`|^ {4}|^)make ([a-z]+)", text, re.MULTILINE))
        assert named
        assert named <= makefile_targets()


PAGES = ("README.md", "CONTRIBUTING.md", *(f"specs/{room}.md" for room in ROOMS))


def file_faults(root: Path) -> list[str]:
    """Files that the documents name and that are not there. A name may have stars."""
    faults: list[str] = []
    for page in PAGES:
        text = (root / page).read_text(encoding="utf-8")
        for name in re.findall(r"`((?:semantics|interp|lower|verify|tests|specs|\.src|\.ci)/[\w./*-]*)`", text):
            if not any(root.glob(name)):
                faults.append(f"{page}: {name}")
    return faults


def test_the_documents_name_files_that_exist() -> None:
    assert file_faults(ROOT) == []


def test_a_planted_file_name_is_found(tmp_path: Path) -> None:
    (tmp_path / "specs").mkdir()
    (tmp_path / "lower").mkdir()
    (tmp_path / "lower" / "anf.py").touch()
    for page in PAGES:
        (tmp_path / page).write_text("See `lower/anf.py`, `lower/` and `lower/a*.py`.\n")
    assert file_faults(tmp_path) == []
    (tmp_path / "specs" / "interp.md").write_text("See `lower/gone.py`.\n")
    assert file_faults(tmp_path) == ["specs/interp.md: lower/gone.py"]


def commands_used() -> dict[str, set[str]]:
    """The subcommands of `assay` in the documents' examples, each with the options that it is given."""
    used: dict[str, set[str]] = {}
    for page in ("README.md", "specs/commands.md", "specs/verify.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        for command, rest in re.findall(r"^ {4}assay ([a-z]+)([^#\n]*)", text, re.MULTILINE):
            used.setdefault(command, set()).update(re.findall(r"(?<![\w-])--?[a-z]+", rest))
    return used


def test_the_documents_use_commands_and_options_that_exist(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    used = commands_used()
    assert used.keys() >= {"check", "run", "build", "verify"}
    for name, value in {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    for command, options in used.items():
        monkeypatch.setattr("sys.argv", ["assay", command, "--help"])
        with pytest.raises(SystemExit) as done:
            main()
        assert not done.value.code, command
        known = set(re.findall(r"(?<![\w-])--?[a-z]+", capsys.readouterr().out))
        assert options <= known, f"assay {command} has no {sorted(options - known)}"


def test_contributing_has_a_sentence_for_each_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    names = {re.split(r"[<>=~\[]", d)[0] for group in groups for d in group} - {"assay"}
    described = set(re.findall(r"^- `([\w-]+)`", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.MULTILINE))
    assert names == described & names, f"not described: {sorted(names - described)}"
    assert described == names, f"described, but no dependency: {sorted(described - names)}"


# --- make ---------------------------------------------------------------------------------------------------------


def run_make(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    return subprocess.run(["make", *args], check=False, cwd=folder, env=env, capture_output=True, text=True, timeout=60)


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A folder with the Makefile alone, nothing set up."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_make_alone_lists_the_targets(bare: Path) -> None:
    done = run_make(bare)
    assert done.returncode == 0
    for target in makefile_targets() - {"compiler"}:
        assert re.search(rf"^ +make {target} +\w", done.stdout, re.MULTILINE), target


def test_make_takes_a_python_that_is_new_enough(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, says in (("python3", "exit 1"), ("python3.14", "echo python3.14")):
        (bare / name).write_text(f"#!/bin/sh\n{says}\n")
        (bare / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{bare}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("PYTHON", raising=False)
    assert "PYTHON=python3.14 " in run_make(bare).stdout
    assert "PYTHON=mine " in run_make(bare, "PYTHON=mine").stdout


def test_make_without_a_python_says_so(bare: Path) -> None:
    done = run_make(bare, "demo", "PYTHON=no-such-python")
    assert done.returncode == 2
    assert "Python 3.11 or newer is needed" in done.stderr
    assert not (bare / ".venv").exists()


def test_make_without_venv_says_so(bare: Path) -> None:
    python = bare / "python-without-venv"
    python.write_text('#!/bin/sh\ncase "$2" in *ensurepip*) exit 1;; esac\nexit 0\n')
    python.chmod(0o755)
    done = run_make(bare, "test", f"PYTHON={python}")
    assert done.returncode == 2
    assert "has no venv module" in done.stderr


def test_make_without_a_compiler_says_so(bare: Path) -> None:
    done = run_make(bare, "compiler", "CC=no-such-cc")
    assert done.returncode == 2
    assert "no C compiler 'no-such-cc'" in done.stderr
    assert run_make(bare, "compiler", f"CC={sys.executable}").returncode == 0

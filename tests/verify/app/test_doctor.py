"""`assay doctor` (specs/verify.md, "Command line"): what is there, and what it says where something is not."""

from __future__ import annotations

import json
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import onnx
import pytest
import z3

from assay.verify.doctor import ADDS
from tests.places import ROOT
from tests.verify.app.test_cli import assay
from tests.verify.app.test_published_answers import RELU


def told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any], Any]:
    """The exit code, the parts by group and name, and the last line."""
    capsys.readouterr()
    code = assay(monkeypatch, "doctor", "--json")
    found = json.loads(capsys.readouterr().out)
    assert found["exit"] == code and found["holds"] == (code == 0)
    return code, {f"{r['group']} {r['name']}": r for r in found["rows"]}, found["said"]


def test_what_is_there(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code, parts, said = told(monkeypatch, capsys)
    assert code == 0 and said == "the core works: every command can run"
    assert all(parts[f"core {n}"]["works"] for n in ("Python", "temporary files", "C compiler", "z3"))
    assert parts["backends numpy"]["works"] and parts["extras test"]["says"] == "there"
    assert assay(monkeypatch, "doctor") == 0
    assert capsys.readouterr().out.endswith("the core works: every command can run\n")


@pytest.mark.parametrize(
    ("script", "says"),
    [
        (None, "cannot find the compiler"),
        ("exit 1", "refuses a small program"),
        ("echo made nothing", "refuses a small program"),
        ('case "$*" in *-std=c99*) echo "no C99" >&2; exit 1;; esac; exec cc "$@"', "no C99"),
    ],
    ids=["none", "fails", "makes nothing", "no C99"],
)
def test_a_compiler_that_does_not_work(
    script: str | None, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if script is not None:
        (tmp_path / "odd").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "odd").chmod(0o755)
    monkeypatch.setenv("CC", str(tmp_path / "odd"))
    code, parts, said = told(monkeypatch, capsys)
    assert code == 6 and says in parts["core C compiler"]["says"] and not parts["backends c"]["works"]
    assert said.startswith("C compiler: not working; judge, run, prove, plan and explain work without one")


def test_what_works_without_a_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the last line says of a machine without one."""
    onnx.save(RELU, tmp_path / "m.onnx")
    (tmp_path / "b.csv").write_text("id,lower,upper,size\na,0,2,8\nb,1,3,8\n")
    monkeypatch.setenv("CC", str(tmp_path / "none"))
    for words in (
        ["judge", tmp_path / "m.onnx", "--backend", "numpy", "--kinds", "random"],
        ["run", tmp_path / "m.onnx"],
        ["prove", "--operator", "nn.relu"],
        ["plan", tmp_path / "b.csv"],
        ["explain", "M7.2"],
        ["check", tmp_path / "m.onnx", "--stop-after", "pool"],
    ):
        assert assay(monkeypatch, *words) == 0, words
    assert assay(monkeypatch, "build", tmp_path / "m.onnx", "-o", tmp_path / "out") == 6


def test_no_place_for_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    code, parts, said = told(monkeypatch, capsys)
    assert code == 6 and not parts["core temporary files"]["works"]
    assert said == "temporary files, C compiler: not working"


def test_a_solver_that_is_wrong(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(z3.Solver, "check", lambda self: z3.sat)
    code, parts, said = told(monkeypatch, capsys)
    assert code == 6 and parts["core z3"]["says"] == "gives a wrong answer" and said == "z3: not working"


def test_every_extra_says_what_it_adds() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert list(declared) and set(declared) == set(ADDS)

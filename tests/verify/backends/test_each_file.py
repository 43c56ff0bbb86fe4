"""Judging in somebody's CI: one command for several files, and the text of the action and of the hooks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import onnx
import onnx.parser
import pytest

from assay.verify.exits import Exit
from assay.verify.plugins.each_file import run_each
from tests.places import ROOT

GOOD = '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Add(x, x) }'


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    onnx.save(onnx.parser.parse_model(GOOD), tmp_path / "good.onnx")
    (tmp_path / "torn.onnx").write_bytes(b"no model")
    return {n: str(tmp_path / f"{n}.onnx") for n in ("good", "torn")}


def test_each_file_is_run_and_the_gravest_counts(files: dict[str, str], capfd: pytest.CaptureFixture[str]) -> None:
    assert run_each(["run", "--json", files["torn"], files["good"]]) == Exit.UNUSABLE
    assert "torn.onnx" in capfd.readouterr().err


def test_what_is_not_known_passes_and_is_told(files: dict[str, str], capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    assert run_each(["judge", "--backend", "onnxruntime", files["good"]]) == Exit.HOLDS
    assert "right" in capfd.readouterr().out


def script_of_the_action() -> str:
    text = (ROOT / ".github/actions/judge/action.yml").read_text(encoding="utf-8")
    found = re.search(r"      run: \|\n((?: {8}.*\n)+)", text)
    assert found is not None
    assert "${{" not in found[1]  # what an input holds would be run
    return re.sub(r"^ {8}", "", found[1], flags=re.MULTILINE)


STAND_IN = """#!/bin/sh
printf '%s\\n' "$@" > called
exit "$CODE"
"""


@pytest.mark.parametrize(
    ("code", "undecided", "ends"), [(0, "pass", 0), (1, "pass", 1), (5, "pass", 0), (5, "fail", 5)]
)
def test_the_script_of_the_action(tmp_path: Path, code: int, undecided: str, ends: int) -> None:
    (tmp_path / "assay").write_text(STAND_IN)
    (tmp_path / "assay").chmod(0o755)
    said = {"MODEL": "a b;c.onnx", "BACKENDS": "onnxruntime torch", "OPTIONS": "--dim n=*", "JUNIT": "out.xml"}
    said |= {"BASELINE": "", "REPORT": ""}
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "GITHUB_OUTPUT": "outputs", "CODE": str(code)}
    script = ["bash", "-e", "-c", script_of_the_action()]
    done = subprocess.run(script, cwd=tmp_path, env={**env, **said, "UNDECIDED": undecided}, check=False)
    assert done.returncode == ends
    assert (tmp_path / "outputs").read_text() == f"exit={code}\n"
    called = (tmp_path / "called").read_text().splitlines()
    assert called == [
        "judge", "a b;c.onnx", "--backend", "onnxruntime", "--backend", "torch", "--junit", "out.xml", "--dim", "n=*",
    ]  # fmt: skip


def test_every_input_of_the_action_is_handed_over(tmp_path: Path) -> None:
    (tmp_path / "assay").write_text(STAND_IN)
    (tmp_path / "assay").chmod(0o755)
    text = (ROOT / ".github/actions/judge/action.yml").read_text(encoding="utf-8")
    declared = re.findall(r"^  (\w+):\n    description:", text.partition("outputs:")[0], re.MULTILINE)
    handed = dict(re.findall(r"^        (\w+): \$\{\{ inputs\.(\w+) \}\}$", text, re.MULTILINE))
    assert sorted(handed.values()) == sorted(declared) and "baseline" in declared
    said = {name: f"<{value}> $(touch it)" for name, value in handed.items()}
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "GITHUB_OUTPUT": "outputs", "CODE": "0"}
    script = ["bash", "-e", "-c", script_of_the_action()]
    assert subprocess.run(script, cwd=tmp_path, env={**env, **said}, check=False).returncode == 0
    called = (tmp_path / "called").read_text().splitlines()
    for option in ("baseline", "report", "junit"):
        assert called[called.index(f"--{option}") + 1] == f"<{option}> $(touch it)"
    assert not (tmp_path / "it").exists()


def test_the_hooks_name_commands_that_there_are(files: dict[str, str]) -> None:
    text = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    entries = re.findall(r"^  entry: python -m (\S+) (\w+)$", text, re.MULTILINE)
    assert [command for _, command in entries] == ["judge", "run"]
    for module, command in entries:
        done = subprocess.run([sys.executable, "-m", module, command, files["torn"]], capture_output=True, check=False)
        assert done.returncode == Exit.UNUSABLE

"""The line that says what a run comes to, `--quiet`, `--no-color`, and what the shell completes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import onnx
import onnx.parser
import pytest

from assay.verify.app.check import Line
from assay.verify.app.cli import main
from assay.verify.app.summary import run_summary
from assay.verify.evidence import Evidence, checked, of_outcome, proved, refuted, unknown

ADD = '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Add(x, x) }'


def test_what_all_comes_to() -> None:
    lines = [
        Line("a", "", proved("p"), 0),
        Line("b", "", checked("c"), 0),
        Line("c", "", Evidence("tested", True, "t"), 0),
    ]
    said = run_summary(lines)
    assert said.startswith("all 3 lines hold; proved for every input, at the sizes that each line names: a; checked")
    assert "inputs and sizes of this run: c" in said
    lines += [Line("d", "", refuted("proved", "no"), 0), Line("e", "", of_outcome("wrong", "no"), 0)]
    lines += [Line("f", "", unknown("proved", "?"), 0), Line("g", "", of_outcome("refused", "?"), 0)]
    said = run_summary(lines)
    assert said.startswith("DOES NOT HOLD: d, e (wrong); not known: f (unknown), g (refused); proved")
    assert "all" not in said
    assert run_summary(lines[:1]).startswith("the only line holds; proved")


@pytest.fixture
def model(tmp_path: Path) -> str:
    onnx.save(onnx.parser.parse_model(ADD), tmp_path / "add.onnx")
    return str(tmp_path / "add.onnx")


def said_by(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, int]:
    monkeypatch.setattr("sys.argv", ["assay", *words])
    with pytest.raises(SystemExit) as end:
        main()
    assert isinstance(end.value.code, int)
    return capsys.readouterr().out, end.value.code


def test_check_ends_with_it(model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    out, code = said_by(monkeypatch, capsys, "check", model, "--stop-after", "anf", "--no-color")
    last = out.splitlines()[-1]
    assert code == 0 and len(out.splitlines()) > 3
    assert last.startswith("all 3 lines hold; proved for every input, at the sizes that each line names: devices, anf;")
    assert os.environ.pop("NO_COLOR") == "1"
    assert said_by(monkeypatch, capsys, "check", model, "--stop-after", "anf", "--quiet") == (f"{last}\n", 0)
    out, code = said_by(monkeypatch, capsys, "check", model, "--stop-after", "anf", "--json", "--quiet")
    assert json.loads(out)["summary"] == last


def test_judge_is_quiet_but_for_closing_lines(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, code = said_by(monkeypatch, capsys, "judge", model, "--backend", "numpy", "--kinds", "random", "--quiet")
    assert code == 0 and out.startswith("numpy is right on") and "verdict" not in out


def test_the_shell_completes_commands_and_options() -> None:
    def completed(words: str) -> list[str]:
        asked = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" ")), "_ASSAY_COMPLETE": "complete_bash"}
        run = "import sys; sys.argv[0] = 'assay'; from assay.verify.app.cli import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", run], env={**os.environ, **asked}, capture_output=True, text=True, check=False
        )
        return done.stdout.split()

    assert completed("assay che") == ["check"]
    assert "--quiet" in completed("assay check --")

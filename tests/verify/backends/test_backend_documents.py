"""The backends that the chapter shows, as a reader would try them (specs/verify.md, "Backends")."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

from tests.places import ROOT
from tests.verify.app.test_cli import assay

MODEL = """<ir_version: 9, opset_import: ["" : 17]>
g (float[3] x, int64[2] i) => (float[2] y) <float two = {2.0}> { a = Mul(x, two) b = Gather(a, i) y = Neg(b) }"""


def shown() -> dict[str, str]:
    """The files of the section, by name."""
    section = (ROOT / "specs" / "verify.md").read_text("utf-8").partition("\n## Backends\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    return {re.match(r"# (\S+)\n", block)[1]: block for block in blocks}  # type: ignore[index]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in shown().items():
        (tmp_path / name).write_text(text)
    onnx.save(parser.parse_model(MODEL), tmp_path / "m.onnx")
    onnx.save(parser.parse_model(MODEL.replace("Neg(b)", "Sin(b)")), tmp_path / "sin.onnx")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_they_are_as_short_as_is_said() -> None:
    lines = {name: sum(bool(line.strip()) for line in text.splitlines()) for name, text in shown().items()}
    assert lines.keys() == {"mine.py", "compiler.py", "test_compiler.py"}
    assert lines["mine.py"] <= 10 and lines["compiler.py"] <= 30


@pytest.mark.parametrize(
    ("backend", "model", "index", "code", "words"),
    [
        ("mine:run", "m.onnx", 2, 0, "3 tensors right on the backend's own operands"),
        ("compiler:Compiler", "m.onnx", 2, 0, "3 tensors right on the backend's own operands"),
        ("compiler:Compiler", "m.onnx", 7, 0, "fails as it must: trap (out of bounds)"),
        ("compiler:Compiler", "sin.onnx", 2, 5, "it does not take Sin"),
    ],
)
def test_each_is_judged(
    backend: str, model: str, index: int, code: int, words: str, folder: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    np.savez("in.npz", x=np.arange(3, dtype=np.float32), i=np.array([0, index]))
    options = ("--inputs", "in.npz", "--backend", backend, "--stop-after", "import", "--json")
    assert assay(monkeypatch, "check", model, *options) == code
    assert words in json.loads(capsys.readouterr().out)["lines"][-1]["detail"]


def test_its_author_tests_it(folder: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_compiler.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    found = re.search(r"^(\d+) passed, (\d+) skipped", done.stdout, re.MULTILINE)
    assert done.returncode == 0 and found is not None, done.stdout[-3_000:]
    assert int(found[1]) > 20, done.stdout

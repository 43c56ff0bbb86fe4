"""`assay check`, `build` and `verify` of a module as text: devices, sizes, mistakes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.verify.app.test_cli import assay

TWO = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def twice(x: T.Buffer((5, 7), "float32"), out: T.Buffer((5, 7), "float32")):
        for i, j in T.grid(5, 7):
            out[i, j] = x[i, j] + x[i, j]

    @R.function
    def main(a: R.Tensor((5, 7), "float32"), b: R.Tensor((5, 7), "float32"), c: R.Tensor((5, 7), "float32")) -> \
R.Tensor((5, 7), "float32"):
        cls = Module
        d = R.call_tir(cls.twice, (c,), out_sinfo=R.Tensor((5, 7), dtype="float32"))
        return R.subtract(A.on_device(R.add(a, b), "cpu"), d)
"""
SIZED = """
@R.function
def main(a: R.Tensor(("n", 7), "float32"), b: R.Tensor(("n", 7), "float32")) -> R.Tensor(("n", 7), "float32"):
    return R.add(a, R.exp(b))
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "program.py"
    path.write_text(text)
    return path


@pytest.mark.row("V3", "V9")
def test_a_text_with_devices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = written(tmp_path, TWO), tmp_path / "out"
    assert assay(monkeypatch, "build", path, "-o", out, "--on", "cuda", "--on", "cpu") == 0
    table = capsys.readouterr().out
    assert re.search(r"devices +checked .*2 devices, 1 copy", table), table
    assert re.search(r"pool +proved .*workspace_cpu_0 140, +workspace_cuda_0 \d+", table), table
    assert assay(monkeypatch, "verify", out) == 0
    assert re.search(r"devices +checked .*2 devices, 1 copy", capsys.readouterr().out)


def test_a_text_on_no_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        assay(monkeypatch, "check", written(tmp_path, TWO.replace('A.on_device(R.add(a, b), "cpu")', "R.add(a, b)")))
        == 0
    )
    table = " ".join(capsys.readouterr().out.split())
    assert re.search(r"devices proved .* one device", table)
    assert "but 1, whose tensor functions are no operators" in table


def test_a_text_with_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, SIZED)
    assert assay(monkeypatch, "check", path, "--dim", "n=3") == 0
    capsys.readouterr()
    assert assay(monkeypatch, "check", path, "--dim", "m=3") == 2
    assert re.search(r"no symbolic dim m; it has n \[check\.C1\]", capsys.readouterr().err)
    assert assay(monkeypatch, "check", path) == 0
    assert "at n = 0, 1, 2, 7" in " ".join(capsys.readouterr().out.split())


def test_a_backend_runs_the_exported_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert assay(monkeypatch, "check", written(tmp_path, SIZED), "--dim", "n=3", "--backend", "reference") == 0
    assert re.search(r"reference +tested .* 1 output, 2 of 2 tensors", capsys.readouterr().out)
    assert assay(monkeypatch, "check", written(tmp_path, TWO), "--on", "cpu", "--backend", "reference") == 5
    told = " ".join(capsys.readouterr().out.split())
    assert "tensor function twice is no operator" in told and "not known: reference (refused)" in told


def test_mistakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert assay(monkeypatch, "check", written(tmp_path, TWO), "--backend", "referenc") == 2
    assert re.search(r"no backend 'referenc'; .*\[backend\.C3\]", capsys.readouterr().err)
    assert assay(monkeypatch, "check", written(tmp_path, TWO.replace('"cpu"', '"metal"')), "--on", "cuda") == 2
    assert re.search(r"config\.C6", capsys.readouterr().err)
    assert assay(monkeypatch, "check", written(tmp_path, TWO.replace("(5, 7)", "(5, 7", 1))) == 2
    assert "program.py:" in capsys.readouterr().err

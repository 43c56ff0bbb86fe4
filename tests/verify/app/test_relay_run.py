"""`assay run` of a Relay text (row R26): by its file's name or by how it begins, printed as TVMScript, refused in one
line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from assay.semantics.text.module_text import parse
from tests.inputs import read_npz
from tests.verify.app.test_cli import assay

pytestmark = pytest.mark.row("R26")

TEXT = """#[version = "0.0.5"]
def @main(%x: Tensor[(?, 2), float32], %y: Tensor[(?, 2), float32]) -> Tensor[(?, 2), float32] {
  add(%x, %y) /* ty=Tensor[(?, 2), float32] */
}
def @twice(%x: Tensor[(2), float32]) { %x + %x }
"""


@pytest.mark.parametrize("name", ["bug.relay", "bug.rly", "bug.txt", "bug"])
def test_a_relay_text_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_text(TEXT)
    inputs = tmp_path / "in.npz"
    np.savez(inputs, x=np.float32([[1, 2]]), y=np.float32([[10, 20], [30, 40]]))
    assert assay(monkeypatch, "run", path, "--inputs", inputs, "-o", tmp_path / "out.npz") == 0
    assert "output_0: Tensor((2, 2), float32)" in capsys.readouterr().out
    np.testing.assert_array_equal(read_npz(tmp_path / "out.npz")["output_0"], np.float32([[11, 22], [31, 42]]))


def test_sizes_and_functions_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bug.relay"
    path.write_text(TEXT)
    assert assay(monkeypatch, "run", path, "--dim", "x_0=1", "--dim", "y_0=3") == 0
    assert "output_0: Tensor((3, 2), float32)" in capsys.readouterr().out
    assert assay(monkeypatch, "run", path, "--dim", "x_0=4", "--dim", "y_0=3") == 1
    assert "trap (shape): " in (error := capsys.readouterr().err) and ":3:3:" in error
    assert assay(monkeypatch, "run", path, "--function", "twice") == 0
    assert "output_0: Tensor((2,), float32)" in capsys.readouterr().out


def test_it_is_written_as_tvmscript(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bug.relay"
    path.write_text(TEXT)
    assert assay(monkeypatch, "run", path, "--text") == 0
    assert set(parse(capsys.readouterr().out).definitions) == {"main", "twice"}


def test_what_cannot_be_used_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bug.relay"
    path.write_text("def @main(%x: float32) {\n  vision.nms(%x)\n}")
    assert assay(monkeypatch, "run", path) == 2
    error = capsys.readouterr().err
    assert (
        "bug.relay:2:3: the operator vision.nms is not handled\n      vision.nms(%x)\n      ^~~~~~~~~~~~~~ [relay.C12]"
        in error
    )
    assert "Traceback" not in error
    path.write_text(TEXT)
    assert assay(monkeypatch, "run", path, "--text", "--seed", 3, "--dim", "n=3") == 2
    assert "runs nothing" in capsys.readouterr().err
    assert assay(monkeypatch, "run", path, "--module", "Module") == 2
    assert "[cli.C3]" in capsys.readouterr().err
    onnx = tmp_path / "model.onnx"
    onnx.write_bytes(b"\x08\x07")
    assert assay(monkeypatch, "run", onnx, "--text") == 2
    assert "[cli.C3]" in capsys.readouterr().err

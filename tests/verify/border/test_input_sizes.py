"""Symbolic sizes that the inputs given tell: the same for models and for modules as text."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.verify.app.test_cli import assay

TEXT = """
@R.function
def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n", "m"), "float32")):
    return (R.negative(x), R.negative(y))
"""


def program(folder: Path, kind: str) -> Path:
    path = folder / f"program.{kind}"
    if kind == "py":
        path.write_text(TEXT)
        return path
    infos = {
        n: [helper.make_tensor_value_info(f"{n}{end}", TensorProto.FLOAT, dims) for end in ("", "_out")]
        for n, dims in (("x", ["n"]), ("y", ["n", "m"]))
    }
    nodes = [helper.make_node("Neg", ["x"], ["x_out"]), helper.make_node("Neg", ["y"], ["y_out"])]
    graph = helper.make_graph(nodes, "g", [i for i, _ in infos.values()], [o for _, o in infos.values()])
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    )
    return path


def inputs(folder: Path, **shapes: tuple[int, ...]) -> Path:
    path = folder / "in.npz"
    np.savez(path, **{n: np.ones(s, np.float32) for n, s in shapes.items()})
    return path


@pytest.mark.parametrize("kind", ["py", "onnx"])
def test_sizes_come_from_the_inputs(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = program(tmp_path, kind)
    stop = ("--stop-after", "legalize")
    assert assay(monkeypatch, "check", path, "--inputs", inputs(tmp_path, x=(3,)), *stop) == 0
    assert "at 4 sizes (m = 0, 1, 2, 7)" in " ".join(capsys.readouterr().out.split())
    assert assay(monkeypatch, "check", path, "--inputs", inputs(tmp_path, x=(3,)), "--dim", "m=2", *stop) == 0
    assert assay(monkeypatch, "check", path, "--inputs", inputs(tmp_path, y=(3, 2)), *stop) == 0


def test_a_certificate_names_the_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, out = program(tmp_path, "py"), tmp_path / "out"
    assert assay(monkeypatch, "build", path, "--inputs", inputs(tmp_path, y=(3, 2)), "-o", out) == 0
    assert json.loads((out / "certificate" / "manifest.json").read_text())["model"]["dims"] == {"m": 2, "n": 3}


@pytest.mark.parametrize("command", ["check", "run"])
@pytest.mark.parametrize("kind", ["py", "onnx"])
def test_sizes_that_contradict_each_other(
    kind: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = program(tmp_path, kind)
    to = ("-o", tmp_path / "out.npz") if command == "run" else ()
    assert assay(monkeypatch, command, path, "--inputs", inputs(tmp_path, x=(3,), y=(5, 2)), *to) == 2
    assert (
        "axis 0 of input 'y' is 5, expected 3, the value of n by axis 0 of input 'x' [input.C4]"
        in capsys.readouterr().err
    )
    assert assay(monkeypatch, command, path, "--inputs", inputs(tmp_path, x=(3,), y=(3, 2)), "--dim", "n=5", *to) == 2
    assert "axis 0 of input 'x' is 3, expected 5, the value of n by --dim n [input.C4]" in capsys.readouterr().err

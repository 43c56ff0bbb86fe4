"""`assay export`: what is written, how it is shown to mean the same, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from assay.lower.stablehlo_export import RULES
from assay.semantics.dtypes import DTYPES, FLOAT32
from assay.semantics.graph import Var, call, constant, function, tuple_of
from assay.semantics.module import Module
from assay.semantics.text.module_text import write_module
from assay.semantics.types import TensorType
from assay.verify.api.programs import load
from assay.verify.app import export_command
from assay.verify.coming_back import came_back
from tests.lower.frontends.stablehlo.test_stablehlo_programs import PROGRAMS
from tests.lower.frontends.stablehlo.test_stablehlo_symbolic import OF_VALUES
from tests.verify.app.test_cli import assay


@pytest.mark.parametrize("file", ["out.mlir", "out.onnx"])
def test_a_program_is_written_and_proved(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / file
    assert assay(monkeypatch, "export", PROGRAMS / "mlp.mlir", "-o", out) == 0
    assert "read again: proved, the same for every input" in capsys.readouterr().out.replace("\n", " ")
    assert assay(monkeypatch, "export", out, "-o", tmp_path / "again.mlir", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["language"], found["holds"], found["how"]) == ("StableHLO", True, "proved")


def test_what_is_not_proved_is_tested_and_a_wrong_export_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = "export", PROGRAMS / "cnn.mlir", "-o", tmp_path / "cnn.mlir"
    assert assay(monkeypatch, *command) == 0
    assert "tested, within the bounds on" in capsys.readouterr().out
    monkeypatch.setitem(RULES, "nn.conv2d", lambda use: use.op("negate", RIGHT(use)))
    assert assay(monkeypatch, *command) == 1
    assert "wrong" in capsys.readouterr().out


RIGHT = RULES["nn.conv2d"]


def test_an_assertion_that_is_not_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.mlir").write_text(OF_VALUES)
    assert assay(monkeypatch, "export", tmp_path / "m.mlir", "-o", tmp_path / "m.onnx") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "not written: 1 assertion, such as '" in said and "are less than {}" in said


@pytest.mark.parametrize(
    ("file", "said"),
    [("out.txt", "export.C1"), ("none/out.mlir", "output.C1")],
)
def test_what_is_no_file_to_write(
    file: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert assay(monkeypatch, "export", PROGRAMS / "mlp.mlir", "-o", tmp_path / file) == 2
    assert said in capsys.readouterr().err


OPEN = """func.func @main(%x: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %0 = stablehlo.exponential %x : tensor<?x3xf32>
  return %0 : tensor<?x3xf32>
}
"""


def test_sizes_that_are_symbols(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = tmp_path / "in.mlir", tmp_path / "out.mlir"
    source.write_text(OPEN)
    assert assay(monkeypatch, "export", source, "-o", out) == 0
    assert "proved, the same for every input" in capsys.readouterr().out.replace("\n", " ")
    assert "tensor<?x3xf32>" in out.read_text()


def test_what_jax_asserts_of_sizes_is_asserted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.mlir"
    assert assay(monkeypatch, "export", PROGRAMS / "mlp_dynamic.mlir", "-o", out) == 0
    said = capsys.readouterr().out.replace("\n", " ")
    assert "within the bounds" in said and "arg0_0=1" in said
    assert "arg0_0=0" not in said, "sizes that are tried fit what is asserted"
    assert "Expected value >= 1 for dimension variable" in out.read_text()


def test_large_constants_lie_beside_a_model_of_onnx(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is small or packed stays inside. Planted: bytes that are changed behind the writing are seen."""
    monkeypatch.setattr(export_command, "MOST_INSIDE", 1 << 18)
    table = np.arange(1 << 15, dtype=np.float32)
    x, doubles, wide = (
        Var(TensorType((1 << 15,), FLOAT32), "x"),
        table.astype(np.float64),
        table.astype(DTYPES["bfloat16"].numpy),
    )
    small, packed = np.float32([2]), np.zeros(1 << 17, DTYPES["int4"].numpy)
    sums = call("add", call("multiply", x, constant(small)), constant(table))
    parts = [sums, constant(doubles), constant(wide), constant(packed)]
    program, out = tmp_path / "program.py", tmp_path / "out.onnx"
    write_module(Module({"main": function([x], tuple_of(*parts))}), program)
    assert assay(monkeypatch, "export", program, "-o", out) == 0
    assert "read again: proved, the same for every input" in capsys.readouterr().out.replace("\n", " ")
    model, data = onnx.load(out, load_external_data=False), tmp_path / "out.onnx.data"
    outside = [t for t in model.graph.initializer if t.data_location == onnx.TensorProto.EXTERNAL]
    assert [t.data_type for t in outside] == [
        onnx.TensorProto.FLOAT,
        onnx.TensorProto.DOUBLE,
        onnx.TensorProto.BFLOAT16,
    ]
    given = np.ones(1 << 15, np.float32)
    assert (ReferenceEvaluator(onnx.load(out)).run(None, {"x": given})[0] == given * 2 + table).all()
    before = data.read_bytes()
    data.write_bytes(before[:-1] + b"\x01")
    assert not came_back(load(program), load(out)).holds


def test_no_file_is_written_over_that_is_not_of_the_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The program itself, the data that it reads, and a file of somebody else; what an earlier export wrote is."""
    monkeypatch.setattr(export_command, "MOST_INSIDE", 1 << 18)
    x, table = Var(TensorType((1 << 17,), FLOAT32), "x"), np.arange(1 << 17, dtype=np.float32)
    program, first, out = tmp_path / "program.py", tmp_path / "first.onnx", tmp_path / "out.onnx"
    write_module(Module({"main": function([x], call("add", x, constant(table)))}), program)
    assert assay(monkeypatch, "export", program, "-o", first) == 0
    assert assay(monkeypatch, "export", program, "-o", first) == 0, "again, over its own"
    model = onnx.load(first, load_external_data=False)
    for tensor in model.graph.initializer:
        tensor.external_data[0].value = "out.onnx.data"
    source, data = tmp_path / "source.onnx", (tmp_path / "first.onnx.data").read_bytes()
    source.write_bytes(model.SerializeToString())
    beside = tmp_path / "out.onnx.data"

    def refused(why: str, command: Path, to: Path) -> None:
        capsys.readouterr()
        before = sorted((f.name, f.read_bytes()) for f in tmp_path.iterdir())
        assert assay(monkeypatch, "export", command, "-o", to) == 2
        said = " ".join(capsys.readouterr().err.split())
        assert why in said and "export.C2" in said
        assert before == sorted((f.name, f.read_bytes()) for f in tmp_path.iterdir())

    beside.write_bytes(data)
    refused("which is there and", source, out)
    beside.write_text("notes", "utf-8")
    refused("is not of", program, out)
    refused("is the program itself", first, first)

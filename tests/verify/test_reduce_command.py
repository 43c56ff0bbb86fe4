"""`assay reduce` on texts, on corpora of failures, with kinds of data and verdicts that are left out."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper as h

from assay.semantics.builder import Builder, tensor
from assay.semantics.text.module_text import write_module
from assay.verify.app.cli import main
from assay.verify.fuzz.cases import Recipe, of_model
from assay.verify.fuzz.corpus import Corpus
from assay.verify.fuzz.targets import Result
from tests.models import model

X = np.array([[0.0, -200.0, 3.0]], np.float32)


def run(monkeypatch: pytest.MonkeyPatch, *args: object) -> int:
    monkeypatch.setattr(sys, "argv", ["assay", "reduce", *map(str, args)])
    with pytest.raises(SystemExit) as done:
        main()
    return int(done.value.code or 0)


def log_softmax() -> onnx.ModelProto:
    nodes = [h.make_node("LogSoftmax", ["x"], ["s"]), h.make_node("Add", ["s", "s"], ["y"])]
    return model(nodes, {"x": (np.float32, (1, 3))}, {"y": (np.float32, None)}, {}, 13, ir_version=8)


def test_a_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    b = Builder()
    with b.function("main", x=tensor("n", 3)) as f:
        b.result(b.multiply(b.nn.log_softmax(f.x), b.nn.log_softmax(f.x)))
    write_module(b.module(), tmp_path / "m.py")
    np.savez(tmp_path / "in.npz", x=X)
    options = ["--backend", "reference", "--inputs", tmp_path / "in.npz", "--dim", "n=1", "-o", tmp_path / "out"]
    assert run(monkeypatch, tmp_path / "m.py", *options) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "-> 1 operator, 0 attributes, 2 elements" in said
    (test,) = (tmp_path / "out").glob("test_*.py")
    assert "LogSoftmax" in test.read_text()


def test_a_corpus_one_after_another_and_where_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = Corpus(tmp_path / "c")
    case = of_model(log_softmax(), {"x": X}, ())
    for target, culprit in (("reference", "LogSoftmax"), ("reference", "Add"), ("passes", "nn.log_softmax")):
        corpus.add(target, Result("wrong", "graph", culprit, "planted"), case, Recipe(), 0, 0)
    out = tmp_path / "out"
    assert run(monkeypatch, tmp_path / "c", "--backend", "reference", "-o", out) == 1
    assert len(list(out.glob("test_reference_wrong_*.py"))) == 2 and capsys.readouterr().out.count("->") == 2
    done = json.loads((out / "reduced.json").read_text())
    assert sorted(done.values()) == [1, 1]
    done.popitem()
    (out / "reduced.json").write_text(json.dumps(done))
    before = {p.name: p.read_text() for p in out.glob("test_*.py")}
    assert run(monkeypatch, tmp_path / "c", "--backend", "reference", "-o", out) == 1
    said = capsys.readouterr().out
    assert said.count("done before") == 1 and said.count("->") == 1
    assert {p.name: p.read_text() for p in out.glob("test_*.py")} == before, "the same test again, under the same name"
    # all of them: that of our own passes is none of a backend, and is told
    assert run(monkeypatch, tmp_path / "c", "-o", out) == 2
    assert "passes is no backend" in capsys.readouterr().out
    (out / "reduced.json").write_text('{"a": 7}')
    assert run(monkeypatch, tmp_path / "c", "-o", out) == 2 and "reduce.C4" in capsys.readouterr().err


def test_what_is_open_is_looked_for_last_and_may_be_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A cast out of the range of int32: ONNX leaves it open."""
    nodes = [h.make_node("Neg", ["x"], ["n"]), h.make_node("Cast", ["n"], ["y"], to=6)]
    onnx.save(
        model(nodes, {"x": (np.float32, (2, 3))}, {"y": (np.int32, None)}, {}, 13, ir_version=8), tmp_path / "m.onnx"
    )
    np.savez(tmp_path / "in.npz", x=np.array([[1e20, 2.5, 3.0], [np.inf, 5.0, 6.5]], np.float32))
    options = [tmp_path / "m.onnx", "--backend", "reference", "--inputs", tmp_path / "in.npz"]
    assert run(monkeypatch, *options, "-o", tmp_path / "out") == 0
    assert "open: " in capsys.readouterr().out
    (test,) = (tmp_path / "out").glob("test_*.py")
    assert "Cast differs where the standard leaves it open" in test.read_text()
    assert run(monkeypatch, *options, "--ignore", "open", "-o", tmp_path / "none") == 0
    assert "nothing to reduce" in capsys.readouterr().out and not list((tmp_path / "none").iterdir())


def test_the_kinds_of_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The log-softmax of large numbers is infinite there; that of ordinary ones is not."""
    onnx.save(log_softmax(), tmp_path / "m.onnx")
    options = [tmp_path / "m.onnx", "--backend", "reference", "-o", tmp_path / "out"]
    assert run(monkeypatch, *options, "--kinds", "random") == 0
    assert "nothing to reduce (1 right)" in capsys.readouterr().out
    assert run(monkeypatch, *options, "--kinds", "random,large") == 1
    for wrong in (["--kinds", "ordinary"], ["--ignore", "right"]):
        assert run(monkeypatch, *options, *wrong) == 2
    said = capsys.readouterr().err
    assert "no kind of data 'ordinary'" in said and "--ignore takes open, wrong" in said


def test_what_cannot_be_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(log_softmax(), tmp_path / "m.onnx")
    (tmp_path / "empty").mkdir()
    np.savez(tmp_path / "in.npz", x=X)
    assert run(monkeypatch, tmp_path / "m.onnx", "-o", tmp_path / "out") == 2
    assert run(monkeypatch, tmp_path / "empty", "-o", tmp_path / "out", "--inputs", tmp_path / "in.npz") == 2
    assert run(monkeypatch, tmp_path / "empty", "-o", tmp_path / "out") == 2
    said = capsys.readouterr().err
    assert "--backend NAME says who" in said and "--inputs is for one program" in said and "reduce.C3" in said

"""What a command says when a late stage refuses: what was shown before, why, and only advice that can be followed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from tests.inputs import read_npz
from tests.verify.app.test_cli import assay

CALLS_ITSELF = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        @R.function
        def halved(n: R.Tensor((), "int32"), a: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            if R.greater(n, R.const(0, "int32")):
                r = halved(R.subtract(n, R.const(1, "int32")), R.multiply(a, R.const(0.5, "float32")))
            else:
                r = a
            return r
        return halved(R.const(3, "int32"), x)
"""


def answer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, Any, str]:
    """The exit code, the JSON and the standard error of a command."""
    capsys.readouterr()
    code = assay(monkeypatch, *args, "--json")
    said = capsys.readouterr()
    return code, json.loads(said.out), said.err


def saved(path: Path, nodes: list[onnx.NodeProto], inputs: list[Any], outputs: list[Any], **stored: Any) -> Path:
    """A model; inputs and outputs are names, dtypes and shapes."""
    kept = [numpy_helper.from_array(np.asarray(a), n) for n, a in stored.items()]
    ends = [[helper.make_tensor_value_info(n, t, s) for n, t, s in part] for part in (inputs, outputs)]
    graph = helper.make_graph(nodes, "g", *ends, kept)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    return path


def loop(tmp_path: Path) -> Path:
    """A loop that doubles."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Add", ["v", "v"], ["w"])],
        "body",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
         helper.make_tensor_value_info("v", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, [2])],
    )  # fmt: skip
    node = helper.make_node("Loop", ["times", "", "x"], ["y"], body=body)
    ends = [[("times", TensorProto.INT64, []), ("x", TensorProto.FLOAT, [2])], [("y", TensorProto.FLOAT, [2])]]
    return saved(tmp_path / "loop.onnx", [node], *ends)


SEQUENCE = """<ir_version: 8, opset_import: ["" : 18]>
kept (float[2] x, int64 times) => (float[2] y) {
    yes = Constant <value: tensor = bool {1}> ()
    none = SequenceConstruct (x)
    all = Loop <body: graph = body (int64 i, bool go, seq(float[2]) v) => (bool on, seq(float[2]) w) {
        on = Identity (go)
        w = SequenceInsert (v, x) }> (times, yes, none)
    zero = Constant <value: tensor = int64 {0}> ()
    y = SequenceAt (all, zero) }"""


@pytest.mark.parametrize("kind", ["text", "onnx"])
def test_a_function_that_calls_itself_is_scheduled(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = loop(tmp_path)
    if kind == "text":
        path = tmp_path / "calls.py"
        path.write_text(CALLS_ITSELF)
    code, said, err = answer(monkeypatch, capsys, "check", path)
    assert code == 0 and said["holds"] and not err
    assert [line["stage"] for line in said["lines"]][-1] == "compare" and all(line["holds"] for line in said["lines"])


def test_a_backend_is_judged_where_a_stage_cannot_take_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, path = tmp_path / "out.npz", tmp_path / "kept.onnx"
    onnx.save(parser.parse_model(SEQUENCE), path)
    np.savez(given := tmp_path / "in.npz", x=np.ones(2, np.float32), times=np.int64(2))
    assert assay(monkeypatch, "run", path, "--inputs", given, "-o", out) == 0
    with_inputs = ("check", path, "--inputs", given, "--planner", "greedy-size")  # so it wants a plan
    code, said, err = answer(monkeypatch, capsys, *with_inputs, "--backend", "onnxruntime", "--expected", out)
    *ours, refused, expected, backend = said["lines"]
    assert code == 5 and said["holds"] is None and not err
    assert ours[-1]["stage"] == "schedule" and all(line["holds"] for line in ours)
    assert refused["stage"] == "liveness" and refused["outcome"] == "refused" and "liveness.C" in refused["detail"]
    assert [x["outcome"] for x in (expected, backend)] == ["right", "right"]
    wrong = {n: a + 1 for n, a in read_npz(out).items()}
    np.savez(out, **wrong)
    code, said, _ = answer(monkeypatch, capsys, *with_inputs, "--expected", out)
    assert code == 1 and said["holds"] is False and said["lines"][-1]["outcome"] == "wrong"


def test_an_error_before_the_first_line_is_an_answer_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.csv").write_text("no buffers\n")
    for args in (
        ("check", "none.onnx"), ("build", "none.onnx", "-o", tmp_path / "o"), ("verify", tmp_path),
        ("plan", tmp_path / "bad.csv"), ("fuzz", "--backend", "nobody"), ("check", "x.onnx", "--per-pass"),
    ):  # fmt: skip
        code, said, _ = answer(monkeypatch, capsys, *args)
        assert code == 2 and said["exit"] == 2 and said["error"], args


def test_what_was_found_is_kept_when_it_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from assay.semantics.errors import Invalid
    from assay.verify.app import certificate

    def full(*args: object) -> None:
        raise Invalid("cannot write", label="output.C1")

    path = saved(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], [("x", 1, [2])], [("y", 1, [2])])
    monkeypatch.setattr(certificate, "write", full)
    code, said, _ = answer(monkeypatch, capsys, "build", path, "-o", tmp_path / "out")
    assert code == 2 and said["lines"][-1]["stage"] == "compare" and "output.C1" in said["error"]


def test_a_judged_model_has_the_sizes_that_were_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without them it could not be imported: how many parts there are depends on the size."""
    nodes = [
        helper.make_node("SplitToSequence", ["x"], ["parts"], axis=0),
        helper.make_node("SequenceAt", ["parts", "one"], ["y"]),
    ]
    path = saved(tmp_path / "m.onnx", nodes, [("x", 1, ["seq", 3])], [("y", 1, [1, 3])], one=np.int64(1))
    assert assay(monkeypatch, "check", path, "--dim", "seq=8", "--backend", "reference") == 0
    assert "reference    tested" in capsys.readouterr().out


def test_advice_about_sizes_can_be_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    counted = [helper.make_node("NonZero", ["x"], ["places"]), helper.make_node("Cast", ["places"], ["y"], to=1)]
    path = saved(tmp_path / "counted.onnx", counted, [("x", 1, ["rows", 3])], [("y", 1, [2, "count"])])
    code, said, _ = answer(monkeypatch, capsys, "check", path, "--dim", "rows=2")
    assert code == 0 and "1 measured size" in str(said["lines"]), said
    path = saved(
        tmp_path / "sized.onnx",
        [helper.make_node("Relu", ["x"], ["y"])],
        [("x", 1, ["rows", 3])],
        [("y", 1, ["rows", 3])],
    )
    code, said, _ = answer(monkeypatch, capsys, "check", path)
    assert code == 0 and "at rows = 0, 1, 2, 7" in said["lines"][-1]["did"]
    code, said, _ = answer(monkeypatch, capsys, "check", path, "--dim", "N=4")
    assert code == 2 and "it has rows" in said["error"]
    assert assay(monkeypatch, "check", path, "--dim", "rows=4") == 0

"""Models of scikit-learn's kind, with strings and maps at the border, by the commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper

import assay
from tests.verify.app.test_cli import assay as run_command

ML = "ai.onnx.ml"


def pipeline(labels: tuple[str, ...] = ("no", "yes", "perhaps")) -> onnx.ModelProto:
    """A colour and two numbers to a label and its scores: encoders, a linear classifier, ZipMap."""
    nodes = [
        helper.make_node("OneHotEncoder", ["colour"], ["hot"], domain=ML, cats_strings=["blue", "red"]),
        helper.make_node("Reshape", ["hot", "rows"], ["flat"]),
        helper.make_node("Scaler", ["size"], ["scaled"], domain=ML, offset=[1.0, 2.0], scale=[0.5, 2.0]),
        helper.make_node("Concat", ["flat", "scaled"], ["all"], axis=1),
        helper.make_node(
            "LinearClassifier", ["all"], ["raw", "scores"], domain=ML, classlabels_strings=labels,
            coefficients=np.cos(np.arange(12)).tolist(), intercepts=[0.5, 0.25, -0.5], post_transform="SOFTMAX",
        ),
        helper.make_node("Identity", ["raw"], ["label"]),
        helper.make_node("ZipMap", ["scores"], ["probability"], domain=ML, classlabels_strings=labels),
    ]  # fmt: skip
    maps = helper.make_sequence_type_proto(
        helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    )
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("colour", TensorProto.STRING, ["n", 1]),
         helper.make_tensor_value_info("size", TensorProto.FLOAT, ["n", 2])],
        [helper.make_tensor_value_info("label", TensorProto.STRING, ["n"]),
         onnx.ValueInfoProto(name="probability", type=maps)],
        [helper.make_tensor("rows", TensorProto.INT64, [2], [-1, 2])],
    )  # fmt: skip
    sets = [helper.make_opsetid("", 17), helper.make_opsetid(ML, 1)]
    return helper.make_model(graph, opset_imports=sets, ir_version=8)


Command = Callable[..., tuple[int, str]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs the command; its exit code, and what it printed, in one line."""

    def run(*args: object) -> tuple[int, str]:
        code = run_command(monkeypatch, *args)
        printed = capsys.readouterr()
        return code, " ".join((printed.out + printed.err).split())

    return run


GIVEN = {
    "colour": np.array([["red"], ["blue"], ["green"]]),
    "size": np.array([[1, 2], [3, -1], [0.5, 0]], np.float32),
}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    onnx.save(pipeline(), tmp_path / "p.onnx")
    np.savez(tmp_path / "in.npz", **GIVEN)
    return tmp_path


def test_a_pipeline_is_judged(files: Path, command: Command) -> None:
    pytest.importorskip("onnxruntime")
    judged = ("judge", files / "p.onnx", "--backend", "onnxruntime", "--kinds", "random")
    code, said = command(*judged, "--inputs", files / "in.npz")
    assert code == 0 and "onnxruntime is right on 2 sets of inputs" in said


class Liar:
    """Runs the model by ONNX Runtime, and says the label of the next class, or takes all colours for blue."""

    name = "liar"

    def __init__(self, how: str) -> None:
        self.how = how

    def prepare(self, subject: Any, wanted: Any) -> Any:
        ort = pytest.importorskip("onnxruntime")
        model = onnx.ModelProto()
        model.CopyFrom(subject.model)
        for node in model.graph.node:
            for a in node.attribute:
                if self.how == "label" and node.op_type == "LinearClassifier" and a.name == "classlabels_strings":
                    a.strings[:] = [*a.strings[1:], a.strings[0]]
                if self.how == "colour" and node.op_type == "OneHotEncoder" and a.name == "cats_strings":
                    a.strings[:] = a.strings[::-1]
        session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        if {*wanted} - {o.name for o in session.get_outputs()}:
            raise NotImplementedError("outputs only")
        return lambda inputs: dict(zip(wanted, session.run(list(wanted), dict(inputs)), strict=True))


@pytest.mark.parametrize("how,output", [("label", "label"), ("colour", "probability")])
def test_a_backend_that_mixes_up_words_is_wrong(how: str, output: str) -> None:
    """The planted fault: strings inside of the model count, though numbers go in and out."""
    (verdict,) = assay.judge(pipeline(), Liar(how), GIVEN, kinds="random").verdicts
    assert verdict.outcome == "wrong" and output in str(verdict)


def test_a_pipeline_is_lowered_and_the_line_says_the_words(files: Path, command: Command) -> None:
    code, said = command("check", files / "p.onnx", "--inputs", files / "in.npz", "--stop-after", "liveness")
    assert code == 0
    assert "numbers for strings: 0 'blue', 1 'red', 2 'no', 3 'yes', 4 'perhaps', 5 'green', 6 any other" in said
    assert "a column for each key of probability: no, yes, perhaps" in said


def test_a_pipeline_is_run_with_its_strings(files: Path, command: Command) -> None:
    assert command("run", files / "p.onnx", "--inputs", files / "in.npz", "-o", files / "out.npz")[0] == 0
    with np.load(files / "out.npz") as made:
        assert set(made["label"].tolist()) <= {"no", "yes", "perhaps"}
        np.testing.assert_allclose(made["probability"].sum(axis=1), 1, rtol=1e-6)


def test_a_number_of_another_table_is_refused(files: Path, command: Command) -> None:
    np.savez(files / "codes.npz", colour=np.array([[0]]), size=np.float32([[1, 2]]))
    code, said = command("check", files / "p.onnx", "--inputs", files / "codes.npz")
    assert code == 2 and "strings are wanted, as an array of dtype str [values.C4]" in said


@pytest.mark.parametrize("node", ["StringConcat(x, x)", 'StringSplit<delimiter = " ">(x)', "Cast<to = 8>(f)"])
def test_outputs_of_strings_that_a_model_makes(node: str, tmp_path: Path, command: Command) -> None:
    """The table has what is made of the strings, and the numbers, that are given. Strings are chosen for `judge`."""
    results = "y, n" if node.startswith("StringSplit") else "y"
    text = f"g (string[2] x, float[2] f) => (string[c, d] y) {{ {results} = {node} }}"
    made = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 20]> {text}')
    made.graph.output[0].type.tensor_type.ClearField("shape")
    onnx.save(made, tmp_path / "m.onnx")
    np.savez(tmp_path / "in.npz", x=np.array(["a b", "c"]), f=np.float32([1, 2]))
    for args in (("judge", "--backend", "numpy"), ("check",)):
        assert command(args[0], tmp_path / "m.onnx", *args[1:], "--inputs", tmp_path / "in.npz")[0] == 0
        code, said = command(args[0], tmp_path / "m.onnx", *args[1:])
        if args[0] == "check" or node.startswith("Cast"):
            assert code == 2 and "decides which strings there are" in said
        else:
            assert code == 0 and "strings chosen: x = " in said
    assert command("run", tmp_path / "m.onnx", "--inputs", tmp_path / "in.npz")[0] == 0

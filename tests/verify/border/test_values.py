"""Sequences, optional values, tuples, strings and element types that NumPy has not, through the files of the
commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper

from tests.inputs import read_npz
from tests.verify.app.test_cli import assay
from tests.verify.app.test_whole_answers import saved

TUPLES = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tuple(R.Tensor((2,), "float32"), R.Tuple(R.Tensor((2,), "float32"), R.Tensor((), "bool"))), w: \
R.Tensor((2,), "float32")):
        y = R.add(x[0], x[1][0])
        if x[1][1]:
            z = R.nn.relu(y)
        else:
            z = R.add(y, w)
        return (z, (y, z), x)
"""


def test_tuples_through_every_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program, given, out = tmp_path / "t.py", tmp_path / "in.npz", tmp_path / "out.npz"
    program.write_text(TUPLES)
    a, b = np.float32([1, -2]), np.float32([-3, 1])
    files = {"x.0": a, "x.1.0": b, "x.1.1": np.array(True), "w": a}
    np.savez(given, **files)
    assert assay(monkeypatch, "run", program, "--inputs", given, "-o", out) == 0
    found = read_npz(out)
    assert list(found) == ["output_0", "output_1.0", "output_1.1", "output_2.0", "output_2.1.0", "output_2.1.1"]
    assert found["output_1.0"].tolist() == [-2, -1] and found["output_0"].tolist() == [0, 0] and found["output_2.1.1"]
    capsys.readouterr()
    assert assay(monkeypatch, "check", program, "--inputs", given, "--expected", out, "--backend", "reference") == 0
    np.savez(tmp_path / "wrong.npz", **{**found, "output_1.1": a})
    wrong_file = ("--expected", tmp_path / "wrong.npz", "--stop-after", "import")
    assert assay(monkeypatch, "check", program, "--inputs", given, *wrong_file) == 1
    assert "output_1.1 element" in capsys.readouterr().out
    assert assay(monkeypatch, "build", program, "-o", tmp_path / "built") == 0
    assert assay(monkeypatch, "verify", tmp_path / "built") == 0
    for wrong, say in (
        ({"x.0": a}, "x.1.0 is missing"),
        ({"x": a}, "x is a tuple: x.0, x.1"),
        ({**files, "y": a}, "unknown input 'y'"),
    ):
        capsys.readouterr()
        np.savez(given, **wrong)
        assert assay(monkeypatch, "run", program, "--inputs", given) == 2
        assert say in capsys.readouterr().err


def test_names_of_parts_are_distinct(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [helper.make_node("SequenceConstruct", ["x", "x"], ["s"]), helper.make_node("Relu", ["x"], ["s.0"])]
    path = saved(tmp_path / "m.onnx", nodes, [("x", 1, [2])], [("s.0", 1, [2])])
    model = onnx.load(path)
    model.graph.output.append(helper.make_tensor_sequence_value_info("s", 1, None))
    onnx.save(model, path)
    assert assay(monkeypatch, "run", path, "-o", tmp_path / "o.npz") == 2
    assert "parts.C1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("number", "name", "form", "values", "right"),
    [
        (TensorProto.BFLOAT16, "bfloat16", "uint16", [0x3F80, 0xC020], [1.0, -2.5]),
        (TensorProto.BFLOAT16, "bfloat16", "float32", [1.0, -2.5], [1.0, -2.5]),
        (TensorProto.FLOAT8E4M3FN, "float8_e4m3fn", "uint8", [0x38, 0xC0], [1.0, -2.0]),
        (TensorProto.FLOAT8E5M2, "float8_e5m2", "float64", [1.0, -2.0], [1.0, -2.0]),
        (TensorProto.INT4, "int4", "int8", [7, -8], [7.0, -8.0]),
    ],
)
def test_element_types_made_with_numpy_alone(
    number: int,
    name: str,
    form: str,
    values: list[float],
    right: list[float],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What goes in with the dtype behind its name comes out as numbers; what Assay writes goes in again."""
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)
    same = helper.make_node("Identity", ["x"], ["z"])
    graph = helper.make_graph(
        [node, same], "g", [helper.make_tensor_value_info("x", number, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2]), helper.make_tensor_value_info("z", number, [2])],
    )  # fmt: skip
    path, given, out = tmp_path / "m.onnx", tmp_path / "in.npz", tmp_path / "out.npz"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    np.savez(given, **{f"x:{name}": np.array(values, form)})
    assert assay(monkeypatch, "run", path, "--inputs", given, "-o", out) == 0
    found = read_npz(out)
    assert found["y"].tolist() == right and list(found) == ["y", f"z:{name}"]
    np.savez(given, **{f"x:{name}": found[f"z:{name}"]})
    assert assay(monkeypatch, "run", path, "--inputs", given, "-o", out) == 0
    assert read_npz(out)["y"].tolist() == right


def test_messages_say_how_an_element_type_travels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sixteen = saved(
        tmp_path / "b.onnx",
        [helper.make_node("Identity", ["x"], ["y"])],
        [("x", TensorProto.BFLOAT16, [1])],
        [("y", TensorProto.BFLOAT16, [1])],
    )
    text = saved(
        tmp_path / "s.onnx",
        [helper.make_node("Identity", ["x"], ["y"])],
        [("x", TensorProto.STRING, [1])],
        [("y", TensorProto.STRING, [1])],
    )
    how = "call the array 'x:bfloat16' and give its bits as uint16"
    for path, files, say in (
        (sixteen, {"x": np.uint16([1])}, how),
        (sixteen, {"x": np.float32([1])}, how),
        (sixteen, {"x:bfloat16": np.float32([0.1])}, "which bfloat16 does not have"),
        (sixteen, {"x:bfloat16": np.array(["a"])}, how),
        (text, {"x": np.float32([1])}, "strings are wanted, as an array of dtype str"),
        (text, {}, "is of strings: give it with --inputs"),
        (text, {"x": np.array(["a"], object)}, "strings are arrays of dtype str, not object"),
    ):
        np.savez(tmp_path / "in.npz", **files)  # type: ignore[arg-type]
        capsys.readouterr()
        assert assay(monkeypatch, "run", path, "--inputs", tmp_path / "in.npz", "-o", tmp_path / "o.npz") == 2
        assert say in capsys.readouterr().err
    assert assay(monkeypatch, "check", text) == 0  # strings stand in a table there
    assert "numbers for strings" in " ".join(capsys.readouterr().out.split())


SEQUENCE = (
    "(seq(float[2]) s, float[2] x) => (seq(float[2]) t, float[2] y) { t = SequenceInsert(s, x) y = ConcatFromSequence"
    " <axis = 0> (t) }"
)
HELD = "(optional(float[2]) o) => (optional(float[2]) p, bool y) { p = Identity(o) y = OptionalHasElement(o) }"


def written(text: str, path: Path) -> Path:
    onnx.save(
        onnx.parser.parse_model(
            '<ir_version: 10, opset_import: ["" : 18]> g ' + text.replace("float[2] y", "float[n] y")
        ),
        path,
    )
    return path


@pytest.mark.parametrize(
    ("text", "files"),
    [
        (SEQUENCE, {"s.0": np.float32([1, 2]), "s.1": np.float32([3, 4])}),
        pytest.param(SEQUENCE, {"s.length": np.array(0)}, marks=pytest.mark.campaign),
        pytest.param(HELD, {"o": np.float32([1, 2])}, marks=pytest.mark.campaign),
        (HELD, {"o.none": np.array(True)}),
    ],
)
def test_sequences_and_optional_values_through_every_command(
    text: str,
    files: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path, given, out = written(text, tmp_path / "m.onnx"), tmp_path / "in.npz", tmp_path / "out.npz"
    np.savez(given, **files)
    assert assay(monkeypatch, "run", path, "--inputs", given, "-o", out) == 0
    judge = (
        ("--backend", "reference") if text == SEQUENCE else ()
    )  # of optional values the reference evaluator makes lists
    assert assay(monkeypatch, "check", path, "--inputs", given, "--expected", out, *judge) == 0
    assert assay(monkeypatch, "build", path, "--inputs", given, "-o", tmp_path / "built") == 0
    assert assay(monkeypatch, "verify", tmp_path / "built", "--model", path) == 0
    if judge:
        assert assay(monkeypatch, "reduce", path, "--inputs", given, *judge, "-o", tmp_path / "reduced") == 0
    found = read_npz(out)
    name = next(n for n, a in found.items() if a.size)
    np.savez(
        out, **({"p": np.float32([1, 2]), "y": found["y"]} if name == "p.none" else {**found, name: found[name] + 1})
    )
    assert assay(monkeypatch, "check", path, "--inputs", given, "--expected", out, "--stop-after", "import") == 1
    assert f"{name} element" in capsys.readouterr().out


def test_a_sequence_has_no_random_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(SEQUENCE, tmp_path / "m.onnx")
    for command in (
        ("run", path, "-o", "o.npz"),
        ("check", path),
        ("build", path, "-o", tmp_path / "b"),
        ("reduce", path, "--backend", "reference", "-o", tmp_path / "r"),
    ):
        assert assay(monkeypatch, *command) == 2
        assert "s is a sequence: s.0, s.1 and so on" in capsys.readouterr().err


def test_reduce_keeps_the_sizes_that_were_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without them the model could not be imported again."""
    nodes = [
        helper.make_node("SplitToSequence", ["x"], ["parts"], axis=0),
        helper.make_node("SequenceAt", ["parts", "one"], ["y"]),
    ]
    path = saved(tmp_path / "m.onnx", nodes, [("x", 1, ["seq", 3])], [("y", 1, [1, 3])], one=np.int64(1))
    assert assay(monkeypatch, "reduce", path, "--dim", "seq=4", "--backend", "reference", "-o", tmp_path / "r") == 0

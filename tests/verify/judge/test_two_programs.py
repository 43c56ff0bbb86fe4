"""`assay judge A.onnx B.onnx`: whether an optimiser changed the meaning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import assay
from assay.verify.judge.pieces import Dataflow
from assay.verify.judge.two_programs import comparable
from tests.verify.app.test_cli import assay as command
from tests.verify.judge.deep import GENTLE, deep, with_split_scale


@pytest.fixture
def first(tmp_path: Path) -> Path:
    onnx.save(deep(), tmp_path / "a.onnx")
    return tmp_path / "a.onnx"


def optimised(first: Path) -> onnx.ModelProto:
    """What onnxruntime's basic optimisations make of the model."""
    ort = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(first.with_name("optimised.onnx"))
    options.log_severity_level = 4
    ort.InferenceSession(str(first), options, providers=["CPUExecutionProvider"])
    return onnx.load(first.with_name("optimised.onnx"))


def changed(model: onnx.ModelProto, name: str, by: float) -> onnx.ModelProto:
    made = onnx.ModelProto()
    made.CopyFrom(model)
    (weight,) = [t for t in made.graph.initializer if t.name == name]
    array = numpy_helper.to_array(weight).copy()
    array.flat[0] += by
    weight.CopyFrom(numpy_helper.from_array(array, name))
    return made


def renamed(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same program with other names of nodes and intermediate tensors, its nodes in another text order."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for node in made.graph.node:
        node.name = ""
        for names in (node.input, node.output):
            for i, name in enumerate(names):
                names[i] = name if name in ("x", "y", "scale") or name.startswith("w") else f"other_{name}"
    return made


def judged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], first: Path, second: onnx.ModelProto,
    *words: str,
) -> tuple[int, dict[str, Any]]:  # fmt: skip
    onnx.save(second, first.with_name("b.onnx"))
    code = command(monkeypatch, "judge", first, first.with_name("b.onnx"), "--kinds", "random", "--json", *words)
    (found,) = json.loads(capsys.readouterr().out)["backends"]
    return code, found


def test_equal_terms_are_a_proof(
    first: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = judged(monkeypatch, capsys, first, renamed(deep()))
    assert code == 0 and found["closing"] == "b.onnx is right: proved to be the same for every input of these sizes"
    code, found = judged(monkeypatch, capsys, first, renamed(changed(deep(), "w6", 0.5)))
    assert code in (1, 5) and not found["proved"] and found["outcome"] in ("implausible", "undecided")
    onnx.save(deep(GENTLE), first)
    code, found = judged(monkeypatch, capsys, first, renamed(changed(deep(GENTLE), "w6", 0.5)))
    assert code == 1 and not found["proved"] and found["outcome"] == "wrong"


def test_what_an_optimiser_made_is_right(
    first: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = judged(monkeypatch, capsys, first, with_split_scale(optimised(first), 4))
    assert code == 0 and found["outcome"] == "right" and not found["proved"]
    assert "by pieces between tensors that both programs have" in found["closing"]


@pytest.mark.parametrize("layer", [4, 15])
def test_the_first_piece_that_differs_is_named(
    layer: int, first: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(deep(GENTLE), first)
    second = with_split_scale(optimised(first), layer, GENTLE)
    assert judged(monkeypatch, capsys, first, second)[0] == 0
    code, found = judged(monkeypatch, capsys, first, with_split_scale(optimised(first), layer, GENTLE * 1.1))
    assert code == 1 and found["outcome"] == "wrong"
    assert f"in Mul scaled{layer}, tensor s{layer}: " in found["closing"]


def test_a_change_in_the_last_piece_is_wrong_where_no_bound_of_the_whole_says_so(first: Path) -> None:
    (found,) = assay.judge(first, second=changed(deep(), "w15", 0.25), kinds="random").verdicts
    assert found.outcome == "wrong" and "MatMul product15, tensor p15" in found.closing()


def test_a_name_that_means_something_else_is_not_blamed() -> None:
    """h5 is half of what it was, and is doubled where it is read: every other tensor is the same."""
    made = deep()
    at = next(i for i, n in enumerate(made.graph.node) if n.name == "sum5")
    made.graph.node[at].output[0] = "whole"
    made.graph.initializer.extend(
        [numpy_helper.from_array(np.array(v, np.float32), n) for n, v in (("half", 0.5), ("two", 2.0))]
    )
    made.graph.node.insert(at + 1, onnx.helper.make_node("Mul", ["whole", "half"], ["h5"]))
    made.graph.node.insert(at + 2, onnx.helper.make_node("Mul", ["h5", "two"], ["again"]))
    for node in made.graph.node[at + 3 :]:
        for i, name in enumerate(node.input):
            node.input[i] = "again" if name == "h5" else name
    (found,) = assay.judge(deep(), second=made, kinds="random").verdicts
    assert found.outcome == "right", found.closing()


def test_pieces_stand_side_by_side() -> None:
    one, two = Dataflow(deep()), Dataflow(with_split_scale(deep(), 4))
    names = [*one.makers]
    assert comparable(one, two, names) == names
    crossed = deep()  # its layer 7 reads h5, which the first program has not as an operand there
    next(n for n in crossed.graph.node if n.name == "product7").input[0] = "h5"
    kept = comparable(one, Dataflow(crossed), names)
    assert {*names} - {*kept} == {"h6"}  # p7 is judged from h5 on


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (deep(inputs=("x", "z")), "has an input 'z' more"),
        (deep(width=7), "does not take the inputs of the first program, x: Tensor((2, 6), float32)"),
    ],
)
def test_interfaces_that_are_not_the_same(
    second: onnx.ModelProto, said: str, first: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(second, first.with_name("b.onnx"))
    assert command(monkeypatch, "judge", first, first.with_name("b.onnx")) == 2
    err = capsys.readouterr().err
    assert said in err and "[judge.C3]" in err


def sized(batch: str | int) -> onnx.ModelProto:
    """The last operator of the model alone."""
    x, y = (onnx.helper.make_tensor_value_info(n, 1, [batch, 4]) for n in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Reciprocal", ["x"], ["y"])], "g", [x], [y])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


def test_sizes_are_those_of_the_first_program() -> None:
    assert assay.judge(sized("N"), second=sized("batch")).verdicts[0].proved
    assert assay.judge(sized("N"), second=sized(5), dims={"N": 5}).holds
    with pytest.raises(assay.Invalid, match="axis 0 of input 'x' is 2, expected 5; N=2 was chosen, others with"):
        assay.judge(sized("N"), second=sized(5))


def test_an_output_that_is_not_there(first: Path) -> None:
    second = deep()
    second.graph.output[0].name = "h3"
    with pytest.raises(assay.Invalid, match=r"the second program has no output 'y'; the first program has y: Tensor"):
        assay.judge(first, second=second)
    with pytest.raises(assay.Invalid, match="who is judged"):
        assay.judge(first)


def test_texts(tmp_path: Path) -> None:
    text = """
@R.function
def main(x: R.Tensor((2, 3), dtype="float32")) -> R.Tensor((2, 3), dtype="float32"):
    return R.{}
"""
    for name, body in (("a", "add(x, x)"), ("b", "multiply(x, R.const(2.0, 'float32'))"), ("c", "multiply(x, x)")):
        (tmp_path / f"{name}.py").write_text(text.format(body))
    assert assay.judge(tmp_path / "a.py", second=tmp_path / "b.py").holds
    assert assay.judge(tmp_path / "a.py", second=tmp_path / "c.py").holds is False
    assert "proved" in assay.judge(tmp_path / "a.py", second=tmp_path / "a.py").verdicts[0].closing()

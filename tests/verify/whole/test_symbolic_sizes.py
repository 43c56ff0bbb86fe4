"""Models with unknown sizes through the command line: one lowering, C that takes the sizes, runs at several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from assay.interp import machine
from assay.lower.c import CSource, emit
from assay.semantics.errors import Invalid, Trap
from assay.verify.app.check import CheckRun, Lowering
from assay.verify.c import tools
from assay.verify.c.compiled import compile_c
from tests.exported.loops import MODELS
from tests.verify.app.test_cli import assay

FLOAT = TensorProto.FLOAT


def weights(**shapes: tuple[int, ...]) -> list[onnx.TensorProto]:
    rng = np.random.default_rng(0)
    return [numpy_helper.from_array(rng.standard_normal(s).astype(np.float32), n) for n, s in shapes.items()]


def model(nodes: list[onnx.NodeProto], x: list[Any], y: list[Any], given: list[onnx.TensorProto]) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", FLOAT, x)],
        [helper.make_tensor_value_info("y", FLOAT, y)],
        given,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def perceptron() -> onnx.ModelProto:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["s"]),
        helper.make_node("Relu", ["s"], ["r"]),
        helper.make_node("Softmax", ["r"], ["y"]),
    ]
    return model(nodes, ["batch", 3], ["batch", 4], weights(w=(3, 4), b=(4,)))


def attention() -> onnx.ModelProto:
    nodes = [
        helper.make_node("MatMul", ["x", "wq"], ["q"]),
        helper.make_node("MatMul", ["x", "wk"], ["k"]),
        helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["q", "kt"], ["s"]),
        helper.make_node("Softmax", ["s"], ["a"], axis=-1),
        helper.make_node("MatMul", ["a", "x"], ["z"]),
        helper.make_node("Add", ["z", "x"], ["u"]),
        helper.make_node("LayerNormalization", ["u", "g", "b"], ["y"], axis=-1),
    ]
    given = weights(wq=(4, 4), wk=(4, 4), g=(4,), b=(4,))
    return model(nodes, ["batch", "seq", 4], ["batch", "seq", 4], given)


def image() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["m"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["m", "v"], ["d"], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["d"], ["y"]),
    ]
    given = weights(w=(4, 3, 3, 3), b=(4,), v=(5, 4, 3, 3))
    return model(nodes, ["batch", 3, "height", "width"], ["batch", 5, 1, 1], given)


def scores() -> onnx.ModelProto:
    """The least that has two sizes, and what is kept between its calls."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["q"]),
        helper.make_node("Softmax", ["q"], ["s"], axis=1),
        helper.make_node("MatMul", ["s", "w"], ["y"]),
    ]
    return model(nodes, ["batch", "seq", 4], ["batch", "seq", 4], weights(w=(4, 4)))


def pooled() -> onnx.ModelProto:
    """The operator of `image` that refuses sizes."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["m"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["m"], ["y"]),
    ]
    return model(nodes, ["batch", 3, "height", "width"], ["batch", 3, 1, 1], [])


def saved(of: onnx.ModelProto, tmp_path: Path) -> Path:
    path = tmp_path / "m.onnx"
    onnx.save(of, path)
    return path


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("of", "at"),
    [
        (perceptron, "at batch = 0, 1, 2, 7;"),
        (attention, "at batch = 0, 1, 2, 7; seq = 0, 1, 2, 7;"),
        (image, "no run has height = 1: nn.max_pool2d: axis 2: no window of span 2 fits size 1"),
    ],
)
def test_models_are_checked_without_numbers(
    of: Any, at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    path = saved(of(), tmp_path)
    assert assay(monkeypatch, "check", path, "--backend", "onnxruntime") == 0
    table = said(capsys)
    assert at in table, table
    assert "for all batch >= 0" in table and "onnxruntime tested" in table


def test_what_is_built_has_sizes_as_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = saved(scores(), tmp_path), tmp_path / "out"
    assert assay(monkeypatch, "build", path, "-o", out, "--bound", "batch=1..4", "--bound", "seq=..64") == 0
    assert "at batch = 1, 2, 4; seq = 0, 1, 2, 7, 64;" in said(capsys)
    assert assay(monkeypatch, "verify", out, "--model", path) == 0
    source = CSource.read(out, "m")
    assert [(s.size, s.low, s.high) for s in source.sizes] == [("batch", 1, 4), ("seq", 0, 64)]
    for flags in (tools.FLAGS, (*tools.STRICT, "-O1")):
        compiled = compile_c(source, reproducible=True, flags=flags)
        for batch, seq in ((1, 0), (4, 64), (3, 5)):
            got = compiled.run({"x": np.ones((batch, seq, 4), np.float32)})
            assert got["y"].shape == (batch, seq, 4)
    for batch, seq in ((0, 3), (5, 3), (2, 65)):
        with pytest.raises(Invalid, match="BAD_SIZE"):
            compiled.run({"x": np.ones((batch, seq, 4), np.float32)})
    assert "#define M_WORKSPACE_BYTES" in source.header, "what it takes at most is known"
    assert "int m_run(" in source.header and "int64_t batch" in source.header


def test_sizes_that_an_operator_refuses_trap_in_machine_and_c() -> None:
    check = CheckRun(Lowering(pooled(), "m"))
    assert all(line.evidence.holds for line in check.lines())
    assert check.source is not None
    compiled = compile_c(check.source, reproducible=True)
    for height, width in ((1, 4), (4, 1), (0, 4)):
        x = {"x": np.ones((2, 3, height, width), np.float32)}
        for run in (lambda x=x: machine.run(check.modules["pool"], x), lambda x=x: compiled.run(x)):
            with pytest.raises(Trap) as caught:
                run()
            assert caught.value.kind == "shape", (height, width)


def dividing() -> onnx.ModelProto:
    """Rows as many as `like` has, of what is left."""
    nodes = [
        helper.make_node("Shape", ["like"], ["rows"]),
        helper.make_node("Concat", ["rows", "rest"], ["shape"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["r"]),
        helper.make_node("Softmax", ["r"], ["s"]),
        helper.make_node("Add", ["s", "r"], ["y"]),
    ]
    of = model(nodes, ["n", "m"], ["k", "l"], [numpy_helper.from_array(np.array([-1]), "rest")])
    of.graph.input.append(helper.make_tensor_value_info("like", FLOAT, ["k"]))
    return of


def test_a_size_that_divides_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert assay(monkeypatch, "check", saved(dividing(), tmp_path)) == 0
    table = said(capsys)
    assert "for all k >= 1, n >= 0, m >= 0" in table, table
    assert "no run has k = 0" in table, table
    check = CheckRun(Lowering(dividing(), "m"))
    assert all(line.evidence.holds for line in check.lines())
    assert check.source is not None
    compiled = compile_c(check.source, reproducible=True, flags=(*tools.STRICT, "-O1", "-fsanitize=undefined"))
    good = {"x": np.ones((2, 3), np.float32), "like": np.ones(6, np.float32)}
    assert compiled.run(good)["y"].shape == (6, 1)
    bad = {**good, "like": np.ones(0, np.float32)}
    with pytest.raises(Trap):
        machine.run(check.modules["pool"], bad)
    with pytest.raises((Invalid, Trap), match="BAD_SIZE|size"):
        compiled.run(bad)


def picking(index: int) -> onnx.ModelProto:
    nodes = [helper.make_node("Gather", ["x", "at"], ["y"], axis=0)]
    return model(nodes, ["n", "m"], ["m"], [numpy_helper.from_array(np.array(index), "at")])


def test_sizes_at_which_the_model_traps_are_named_and_others_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert assay(monkeypatch, "check", saved(picking(2), tmp_path)) == 0
    table = said(capsys)
    assert "not run at n = 0: it traps on the inputs tried: trap (out of bounds)" in table, table
    assert "index 2 into axis 0 of size 1 [take.T1]" in table and "m = 0, 1," in table, table


def test_a_model_that_traps_at_all_sizes_is_lowered_and_compare_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert assay(monkeypatch, "check", saved(picking(10**6), tmp_path)) == 2
    out = capsys.readouterr()
    assert "input.C7" in out.err and "c proved" in " ".join(out.out.split())


def test_a_choice_of_other_sizes_is_planned_and_judged_at_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At numbers the arms certainly differ: that is no broken rule."""
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    path = saved(MODELS["choosing"](), tmp_path)
    assert assay(monkeypatch, "check", path, "--backend", "onnxruntime") == 0
    table = said(capsys)
    assert "1 choice, 1 measured size" in table and "sizes over rows" in table, table
    assert "1 output bit for bit" in table and "at rows = 0, 1, 2, 7" in table, table


def test_a_bound_of_no_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = saved(perceptron(), tmp_path)
    assert assay(monkeypatch, "check", path, "--bound", "bath=1..4") == 2
    assert "main has no symbolic dim bath; it has batch [check.C1]" in capsys.readouterr().err
    assert assay(monkeypatch, "check", path, "--bound", "batch=4..1") == 2
    assert "no size is both" in capsys.readouterr().err


def checked(of: onnx.ModelProto, change: Mapping[str, str]) -> tuple[str, str]:
    """The last line of a check of C in which some texts are replaced."""

    def emitter(*args: Any, **more: Any) -> CSource:
        made = emit(*args, **more)
        text = made.source
        for old, new in change.items():
            assert old in text, text
            text = text.replace(old, new)
        return replace(made, source=text)

    *_, last = CheckRun(Lowering(of, "m", emitter=emitter)).lines()
    return last.stage, last.evidence.detail if last.evidence.holds is False else ""


@pytest.mark.parametrize(
    ("change", "at"),
    [
        ({"i0 < batch;": "i0 < batch - (batch == 7);"}, "at batch = 7"),
        ({"i0 < batch;": "i0 < batch - (batch == 1);"}, "at batch = 1"),
        ({"plan->offset_lv4 = ": "plan->offset_lv4 = 0 * "}, "at batch = 2"),
    ],
)
def test_c_that_is_wrong_at_one_size_is_refuted(change: dict[str, str], at: str) -> None:
    of = perceptron() if "batch;" in next(iter(change)) else attention()
    stage, detail = checked(of, change)
    assert stage == "compare" and detail.startswith(at), (stage, detail)

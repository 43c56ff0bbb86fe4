"""Tools that take ONNX models: what they are given, what they may raise, who is there; and each of them, where it is
installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser
from onnx.reference import ReferenceEvaluator

from assay.semantics.dtypes import DTYPES
from assay.semantics.errors import Invalid, Unsupported
from assay.verify.backends import Died, Refused, attempt, backend, subject_of_model
from assay.verify.backends.catalogue import TOOLS, ToolInfo, family_of, tool_of
from assay.verify.backends.listing import listed_backends
from assay.verify.backends.onnx_runners import _from_openvino, _from_tinygrad
from assay.verify.backends.onnx_tools import OnnxTool, Run, heard, signed_as, telling, with_inputs, without_loss
from assay.verify.backends.protocol import UnreadSubject, with_outputs
from assay.verify.backends.registry import BACKENDS, ONNX_TOOLS
from assay.verify.oracle import judge_backend
from assay.verify.oracle.declarations import Accepts
from tests.places import ROOT
from tests.verify.app.test_cli import assay

MODEL = """<ir_version: 8, opset_import: ["" : 17]>
g (float[n,3] x, float[3,4] w, float[4] b) => (float[n,4] y) <float[4] b = {1, 2, 3, 4}>
{ m = MatMul(x, w) s = Add(m, b) y = Relu(s) }"""
INPUTS = {
    "x": np.arange(6, dtype=np.float32).reshape(2, 3) - 2,
    "w": np.arange(12, dtype=np.float32).reshape(3, 4) / 4 - 1,
}
PEERS = [pytest.param(name, marks=pytest.mark.peer) for name in ONNX_TOOLS]


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., OnnxTool]:
    """A stand-in for a tool: ONNX's evaluator, or another function."""
    monkeypatch.setitem(TOOLS, "planted", ToolInfo(("onnx",), ("onnx",), "planted", freedoms=("flushes",)))
    return lambda compile_model=evaluated, **more: OnnxTool("planted", compile_model, **more)


SEEN: list[onnx.ModelProto] = []


def evaluated(model: onnx.ModelProto) -> Run:
    SEEN.append(model)
    evaluator = ReferenceEvaluator(model)
    return lambda given: evaluator.run(None, dict(given))


def sizes(model: onnx.ModelProto) -> dict[str, list[int]]:
    infos = [*model.graph.input, *model.graph.output]
    return {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in infos}


# --- what a tool is given -------------------------------------------------------------------------------------------


def test_a_tool_gets_numbers_for_sizes_and_constants_for_defaults(planted: Callable[..., OnnxTool]) -> None:
    SEEN.clear()
    subject, tool = subject_of_model(parser.parse_model(MODEL)), planted()
    run = tool.prepare(subject, ["y"])
    assert not SEEN, "sizes are not known yet"
    run(INPUTS)
    run(INPUTS)
    run({**INPUTS, "x": np.ones((5, 3), np.float32)})
    assert [sizes(m) for m in SEEN] == [{"x": [n, 3], "w": [3, 4], "y": [n, 4]} for n in (2, 5)]
    changed = run({**INPUTS, "b": np.zeros(4, np.float32)})["y"]
    assert sizes(SEEN[-1])["b"] == [4] and not SEEN[-1].graph.initializer
    np.testing.assert_array_equal(changed, np.maximum(INPUTS["x"] @ INPUTS["w"], 0))
    assert judge_backend(subject, tool, INPUTS).outcome == "right"
    with pytest.raises(Unsupported, match="the input w is not given"):
        run({"x": INPUTS["x"]})


def test_a_tool_that_takes_symbols_gets_them(planted: Callable[..., OnnxTool]) -> None:
    SEEN.clear()
    subject = subject_of_model(parser.parse_model(MODEL))
    run = planted(sized=False).prepare(subject, ["m", "y"])
    assert list(run(INPUTS)) == ["m", "y"] and len(SEEN) == 1
    info = SEEN[0].graph.output[0].type.tensor_type
    assert (info.shape.dim[0].dim_param, info.shape.dim[1].dim_value, info.elem_type) == ("n", 4, 1), "m has no type"


COMPUTED_SHAPE = """<ir_version: 8, opset_import: ["" : 17]>
g (float[3] x) => (float[2,3] y)
{ s = Shape(x) two = Constant <value = int64[1] {2}> () t = Concat <axis = 0> (two, s)
  t2 = Max(t, two) e = Expand(x, t2) y = Neg(e) }"""


def test_a_tool_is_asked_for_no_constant_and_told_the_types_of_what_it_shows(planted: Callable[..., OnnxTool]) -> None:
    """emx-onnx-cgen takes a size that nobody tells for 10, and a constant that is an output for 0."""
    SEEN.clear()
    model = parser.parse_model(COMPUTED_SHAPE)
    assert sizes(with_inputs(with_outputs(model, ["e"]), ["x"], None))["e"] != [2, 3], "ONNX does not infer it"
    assert judge_backend(subject_of_model(model), planted(), {"x": np.arange(3, dtype=np.float32)}).outcome == "right"
    assert sizes(SEEN[-1]) == {"x": [3], "s": [1], "t": [2], "t2": [2], "e": [2, 3], "y": [2, 3]}
    alone = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g () => (float[2] y) { y = Constant <value = float[2] {1, 2}> () }'
    )
    assert judge_backend(subject_of_model(alone), planted(), {}).outcome == "right"


def test_a_model_whose_types_onnx_cannot_infer_stays_as_it_is() -> None:
    odd = parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> g (float[n,2] x) => (float[n] y) { y = Neg(x) }')
    assert sizes(with_inputs(odd, ["x"], {"x": (3, 2)})).keys() == {"x", "y"}


# --- what it may raise ----------------------------------------------------------------------------------------------


def raising(wrong: BaseException, early: bool = False) -> Callable[[onnx.ModelProto], Run]:
    def compile_model(model: onnx.ModelProto) -> Run:
        if early:
            raise wrong

        def run(given: Mapping[str, Any]) -> Any:
            raise wrong

        return run

    return compile_model


@pytest.mark.parametrize(
    ("wrong", "early", "label"),
    [
        (RuntimeError("no kernel"), True, "backend.C2"),
        (NotImplementedError("not yet"), False, "backend.C2"),
        (RuntimeError("no kernel"), False, "backend.C11"),
        (RuntimeError("panicked at 'x'"), True, "backend.C10"),
        (RuntimeError("panicked at 'x'"), False, "backend.C10"),
    ],
)
def test_what_a_tool_raises(wrong: Exception, early: bool, label: str, planted: Callable[..., OnnxTool]) -> None:
    tool = planted(raising(wrong, early), is_crash=lambda w: "panicked" in str(w))
    subject = UnreadSubject(parser.parse_model(MODEL), {})
    with pytest.raises(Unsupported, match=str(wrong)) as told:
        tool.prepare(subject, ["y"])(INPUTS)
    assert told.value.label == label
    assert isinstance(attempt(tool, subject, ["y"], INPUTS), Died if label == "backend.C10" else Refused)


@pytest.mark.parametrize("change", [np.negative, lambda y: y[:1], lambda y: y.astype(np.float64), np.zeros_like])
def test_a_planted_fault_of_a_tool_is_wrong(change: Callable[[Any], Any], planted: Callable[..., OnnxTool]) -> None:
    def compile_model(model: onnx.ModelProto) -> Run:
        right = evaluated(model)
        return lambda given: [change(y) for y in right(given)]

    subject = subject_of_model(parser.parse_model(MODEL))
    assert judge_backend(subject, planted(compile_model), INPUTS).outcome == "wrong"


def test_another_number_of_tensors_is_a_refusal(planted: Callable[..., OnnxTool]) -> None:
    subject = subject_of_model(parser.parse_model(MODEL))
    with pytest.raises(Unsupported, match="it gives 0 tensors for 1") as told:
        planted(lambda model: lambda given: []).prepare(subject, ["y"])(INPUTS)
    assert told.value.label == "backend.C2"


def test_element_types_change_only_where_every_number_stays() -> None:
    assert without_loss(np.array([1, 0], np.int32), np.dtype(bool)).tolist() == [True, False]
    assert without_loss(np.array([-3], np.int32), np.dtype(np.int64)).dtype == np.int64
    for wrong, held, of in (
        (2, np.int64, bool),
        (2**31, np.int64, np.int32),
        (-1, np.int64, np.uint8),
        (-(2**31), np.int32, np.uint32),
        (-(2**63), np.int64, np.uint64),
    ):
        with pytest.raises(NotImplementedError, match="does not hold"):
            without_loss(np.array([wrong], held), np.dtype(of))
    for array, of in ((np.ones(1, np.float32), np.float64), (np.ones(1, np.float32), np.int32)):
        with pytest.raises(NotImplementedError, match="is wanted"):
            without_loss(array, np.dtype(of))
    assert signed_as(np.array([-1], np.int8), np.dtype(np.uint8)).tolist() == [255]
    assert signed_as(np.array([-1], np.int8), np.dtype(np.uint16)).dtype == np.int8, "that is another type"


def test_element_types_that_numpy_has_not_come_back_from_tinygrad() -> None:
    """It gives float32 for them: every number, and the type that the tensor has there."""

    def tensor(dtype: str) -> Any:
        return SimpleNamespace(dtype=SimpleNamespace(name=dtype), numpy=lambda: np.array([1.5], np.float32))

    there = {name: _from_tinygrad(tensor(name)).dtype for name in ("float", "__bf16", "float8_e4m3", "float8_e5m2")}
    assert [str(d) for d in there.values()] == ["float32", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
    assert [v.item() for v in _from_tinygrad([tensor("__bf16"), 2])] == [1.5, 2]


def test_element_types_that_numpy_has_not_come_back_from_openvino() -> None:
    """It gives their bits, as an array of another type."""
    for name, kind, bits in (
        ("bf16", "bfloat16", np.float16),
        ("f8e4m3", "float8_e4m3fn", np.uint8),
        ("f8e5m2", "float8_e5m2", np.int8),
        ("f8e8m0", "float8_e8m0fnu", np.uint8),
        ("f16", "float16", None),
    ):
        wanted = np.array([1, 2]).astype(DTYPES[kind].numpy)
        element = SimpleNamespace(get_type_name=lambda name=name: name, bitwidth=8 * wanted.itemsize)
        found = _from_openvino(
            SimpleNamespace(data=wanted if bits is None else wanted.view(bits), element_type=element)
        )
        assert found.dtype == wanted.dtype and found.tolist() == wanted.tolist()


def test_the_line_that_says_what_is_wrong(capfd: pytest.CaptureFixture[str]) -> None:
    assert telling("C compilation failed:\n m.c: In function 'f':\n m.c:3:1: error: no such type\n") == (
        "m.c:3:1: error: no such type"
    )
    assert telling("\n") == "" and telling("Exception from src/core.cpp:105:\nIt is not taken.") == "It is not taken."
    with heard() as said:
        os.write(1, b"out ")
        os.write(2, b"err")
        assert said() == "out err"
    os.write(1, b"behind")
    assert capfd.readouterr().out == "behind"


# --- who is there ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ONNX_TOOLS)
def test_a_tool_that_is_absent_is_said_with_what_installs_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, TOOLS[name].modules[0], None)
    with pytest.raises(Invalid) as told:
        backend(name).prepare(UnreadSubject(parser.parse_model(MODEL), {}), ["y"])
    assert told.value.label == "backend.C1"
    assert told.value.message == f"the backend {name} is not installed; pip install 'assay[{TOOLS[name].extra}]'"


def test_an_absent_tool_ends_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The backend's own process says so. Where all are installed there is nothing to see."""
    absent = next((row.name for row in listed_backends() if row.install and row.name in ONNX_TOOLS), None)
    if absent is None:
        pytest.skip("every tool is installed")
    onnx.save(parser.parse_model(MODEL), tmp_path / "m.onnx")
    assert assay(monkeypatch, "judge", str(tmp_path / "m.onnx"), "--backend", absent) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"the backend {absent} is not installed; pip install 'assay[{absent}]' [backend.C1]" in said


def test_a_program_that_a_tool_needs(planted: Callable[..., OnnxTool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TOOLS, "planted", ToolInfo(("onnx",), ("onnx",), "planted", program="no-such-program"))
    with pytest.raises(Invalid, match="needs the program no-such-program, which is not installed") as told:
        planted().prepare(subject_of_model(parser.parse_model(MODEL)), ["y"])
    assert told.value.label == "backend.C1"


def test_every_backend_of_ours_is_in_the_catalogue() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    for name in BACKENDS:
        tool = tool_of(name)
        assert not tool.extra or all(any(d.startswith(p) for d in extras[tool.extra]) for p in tool.packages), name
        assert Accepts.of(getattr(BACKENDS[name], "accepts", None)) == Accepts.of(tool.freedoms), name
    assert TOOLS.keys() == {family_of(name) for name in BACKENDS} and {*ONNX_TOOLS} <= {*BACKENDS}


def test_the_command_lists_them(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(TOOLS, "mnn", ToolInfo(("no-such-package",), ("no_such",), "mnn"))
    monkeypatch.setitem(TOOLS, "tract", ToolInfo(("onnx",), ("onnx",), "tract", program="no-such-program"))
    assert assay(monkeypatch, "backends") == 0
    said = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert set(BACKENDS) <= said.keys()
    assert said["mnn"].endswith("not installed: pip install 'assay[mnn]'")
    assert said["tract"].endswith("not installed: the program no-such-program")
    assert said["reference"].endswith(f"onnx {onnx.__version__}, takes ONNX, accepts kept-wider")
    assert said["adversarial"].endswith("takes a module, accepts kept-wider, flushes")
    assert assay(monkeypatch, "backends", "--json") == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["backends"]}
    assert rows["mnn"]["install"] == "pip install 'assay[mnn]'" and rows["mnn"]["installed"] is False
    assert rows["reference"]["version"] == onnx.__version__ and rows["reference"]["freedoms"] == ["kept-wider"]


def test_the_list_imports_no_tool() -> None:
    modules = [m for tool in TOOLS.values() for m in tool.modules if m != "onnx"]
    text = (
        "import sys\nfrom assay.verify.backends.listing import listed_backends\nlisted_backends()\n"
        f"print(*[m for m in {modules} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


# --- the tools themselves -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PEERS)
def test_a_tool_is_right_on_a_small_network(name: str) -> None:
    for module in TOOLS[name].modules:
        pytest.importorskip(module, reason=f"{name} is not installed")
    if missing := TOOLS[name].missing_program():
        pytest.skip(f"{missing} is not installed")
    subject = subject_of_model(parser.parse_model(MODEL))
    verdict = judge_backend(subject, backend(name), INPUTS)
    assert verdict.outcome == "right", str(verdict)
    odd = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Nothing(x) }'
    )
    said = attempt(backend(name), UnreadSubject(odd, {}), ["y"], INPUTS)
    assert isinstance(said, Refused), said

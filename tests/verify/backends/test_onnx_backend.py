"""`assay.verify.plugins.onnx_backend` in ONNX's own test runner (specs/verify.md, "ONNX backend")."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx.backend.base import Backend
from onnx.backend.test.runner import Runner

from assay.semantics.errors import Invalid
from assay.verify.plugins import onnx_backend
from tests.inputs import read_npz
from tests.lower.frontends.onnx.onnx_own_cases import named
from tests.models import model
from tests.verify.app.test_cli import assay
from tests.verify.backends import onnx_suite
from tests.verify.whole import neighbours
from tests.verify.whole.command_trials import Trial

NETWORKS = [
    f"test_{n}_cpu"
    for n in ("bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet",
              "vgg19", "zfnet512")
]  # fmt: skip
"""Real networks; they take half of the time."""


def test_the_list_of_cases_that_do_not_pass_is_true() -> None:
    assert len(onnx_suite.cases()) >= 2000
    found = onnx_suite.run(n for n in onnx_suite.cases() if n not in NETWORKS)
    assert onnx_suite.faults(found, onnx_suite.listed()) == []


@pytest.mark.campaign
def test_networks_pass() -> None:
    assert onnx_suite.faults(onnx_suite.run(NETWORKS), {}) == []


def test_the_list_names_cases_that_there_are() -> None:
    listed = onnx_suite.listed()
    assert listed.keys() <= onnx_suite.cases().keys()
    assert all(listed.values())
    assert [n for n, reason in listed.items() if "Error" in reason or "Crash" in reason] == [], "say why"


def test_the_case_that_the_runner_cannot_compare() -> None:
    (case,) = named("loop16_seq_none$")
    assert case.model is not None
    ((inputs, (want,)),) = case.data_sets or []
    (got,) = onnx_backend.prepare(case.model).run(inputs)
    assert [(x.dtype, x.tolist()) for x in got] == [(x.dtype, x.tolist()) for x in want]


def test_a_wrong_list_is_found() -> None:
    """The planted faults: a case that passes is listed, one that does not is not."""
    found = {"test_relu_cpu": "", "test_strange_cpu": "Unsupported: x"}
    assert onnx_suite.faults(found, {"test_strange_cpu": "Unsupported: x"}) == []
    assert len(onnx_suite.faults(found, {"test_relu_cpu": "why"})) == 2


def test_a_wrong_result_is_not_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: results are a little off."""
    cases = onnx_suite.cases()
    assert onnx_suite.outcome(cases["test_relu_cpu"]) == ""
    right = onnx_backend.AssayRep.run
    monkeypatch.setattr(onnx_backend.AssayRep, "run", lambda *a: tuple(x + x.dtype.type(0.01) for x in right(*a)))
    assert "AssertionError" in onnx_suite.outcome(cases["test_relu_cpu"])


def test_a_node_alone_and_inputs_with_initializers() -> None:
    assert issubclass(onnx_backend.AssayBackend, Backend)
    node = onnx.helper.make_node("Add", ["a", "b"], ["c"])
    a = np.array([1, 2], np.float32)
    (c,) = onnx_backend.run_node(node, [a, a])
    np.testing.assert_array_equal(c, a + a)
    text = (
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x, float[2] w = {3, 4}) => (float[2] y) { y = Mul (w,'
        " x) }"
    )
    (y,) = onnx_backend.run_model(onnx.parser.parse_model(text), [a])
    np.testing.assert_array_equal(y, a * np.array([3, 4], np.float32))
    (y,) = onnx_backend.run_model(onnx.parser.parse_model(text), {"x": a, "w": a})
    np.testing.assert_array_equal(y, a * a)
    with pytest.raises(Invalid, match="unknown input 'v'"):
        onnx_backend.run_model(onnx.parser.parse_model(text), {"x": a, "v": a})


def test_an_empty_optional_value_is_none() -> None:
    of = onnx.helper.make_optional_type_proto(onnx.helper.make_tensor_type_proto(1, [2]))
    node = onnx.helper.make_node("Identity", ["x"], ["y"])
    infos = [onnx.helper.make_value_info(n, of) for n in "xy"]
    made = onnx.helper.make_model(onnx.helper.make_graph([node], "g", infos[:1], infos[1:]))
    rep = onnx_backend.prepare(made)
    assert rep.run([None]) == (None,)
    Runner.assert_similar_outputs([np.ones(2, np.float32)], rep.run([np.ones(2, np.float32)]), 0, 0)


# --- through files

Files = dict[str, np.ndarray[Any, Any]]


def in_file(name: str, value: Any) -> Files:
    """A value of ONNX's test data under the names of a file, as the chapter says."""
    if value is None:
        return {f"{name}.none": np.array(True)}
    if isinstance(value, list):
        found = {n: a for i, v in enumerate(value) for n, a in in_file(f"{name}.{i}", v).items()}
        return found | {f"{name}.length": np.array(len(value))}
    array = np.asarray(value)
    return {name: array.astype(np.str_) if array.dtype.kind == "O" else array}


def holds_more(model: onnx.ModelProto) -> bool:
    """Whether an input or output is no tensor of numbers."""
    values = (*model.graph.input, *model.graph.output)
    return any(not v.type.HasField("tensor_type") or v.type.tensor_type.elem_type == TensorProto.STRING for v in values)


def test_cases_of_onnx_through_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every case of ONNX with a sequence, an optional value or strings at its border that the interpreter runs."""
    said: dict[str, str] = {}
    for case in named(
        "optional sequence identity_sequence identity_opt if_seq if_opt loop13_seq loop16_seq string_ split_to_sequence"
        " regex_full label_encoder equal_string"
    ):
        assert case.model is not None
        if not holds_more(case.model):
            continue
        onnx.save(case.model, tmp_path / "m.onnx")
        for inputs, outputs in case.data_sets or []:
            given: Files = {}
            for of, value in zip(case.model.graph.input, inputs, strict=True):
                given |= in_file(of.name, value)
            np.savez(tmp_path / "in.npz", **given)  # type: ignore[arg-type]
            code = assay(
                monkeypatch, "run", tmp_path / "m.onnx", "--inputs", tmp_path / "in.npz", "-o", tmp_path / "out.npz"
            )
            wanted: Files = {}
            for of, value in zip(case.model.graph.output, outputs, strict=True):
                wanted |= in_file(of.name, value)
            got = read_npz(tmp_path / "out.npz") if code == 0 else {}
            same = got.keys() == wanted.keys() and all(np.array_equal(got[n], wanted[n]) for n in wanted)
            said[case.name] = "" if code == 0 and same else f"exit code {code}: {got} instead of {wanted}"
    assert {n: s for n, s in said.items() if s} == {} and len(said) >= 17, said


def test_a_neighbour_computes_what_goes_in_and_what_comes_out() -> None:
    made = neighbours.between(
        model([onnx.helper.make_node("Neg", ["x"], ["y"])], {"x": (np.float32, (2,))}, {"y": (np.float32, (2,))})
    )
    assert [n.op_type for n in made.graph.node] == ["Where", "Neg", "Where"]
    assert [o for n in made.graph.node for o in n.output][-1] == made.graph.output[0].name
    onnx.checker.check_model(made)
    assert [
        bool(neighbours.wrong(Trial(0, (), code, out, "", 0.0)))
        for code, out in ((0, ""), (0, "FAILS"), (1, ""), (3, ""))
    ] == [False, True, True, True]


@pytest.mark.campaign
def test_cases_between_neighbours(tmp_path: Path) -> None:
    ends = {name: neighbours.wrong(trial) for name, trial in neighbours.campaign(tmp_path, 3)}
    assert len(ends) > 500 and {n: w for n, w in ends.items() if w} == {}

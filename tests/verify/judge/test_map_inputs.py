"""Models whose inputs are maps: what the commands take for them, and what ONNX Runtime gives of the maps themselves."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import assay
from assay.semantics.errors import Invalid
from assay.verify.border.map_inputs import with_rows
from tests.verify.app.test_cli import assay as run_command

ML, VECTORIZER = "ai.onnx.ml", "DictVectorizer"


def model_of(
    key: int, value: int, given: int, op: str, *, rank: int = 2, times: int = 1, **attrs: Any
) -> onnx.ModelProto:
    """A map that `times` nodes of the operator read."""
    held = helper.make_map_type_proto(key, helper.make_tensor_type_proto(value, []))
    nodes = [helper.make_node(op, ["x"], [f"y{i}"], domain=ML, **attrs) for i in range(times)]
    outputs = [helper.make_tensor_value_info(f"y{i}", given, [None] * rank) for i in range(times)]
    graph = helper.make_graph(nodes, "g", [onnx.ValueInfoProto(name="x", type=held)], outputs)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(ML, 1)], ir_version=8
    )


T = TensorProto
N, D, F, S = T.INT64, T.DOUBLE, T.FLOAT, T.STRING
MAPS: list[tuple[onnx.ModelProto, dict[Any, Any], list[float]]] = [
    (model_of(S, F, F, VECTORIZER, string_vocabulary=["b", "a", "c"]), {"a": 1.5, "c": -0.0}, [0, 1.5, -0.0]),
    (model_of(N, D, D, VECTORIZER, int64_vocabulary=[7, -2]), {-2: 2.5, 7: np.inf}, [np.inf, 2.5]),
    (model_of(S, N, N, VECTORIZER, string_vocabulary=["b"]), {"b": 2**53 + 1}, [2**53 + 1]),
    (model_of(N, F, F, "CastMap"), {9: 1.0, -3: 2.0, 4: 0.5}, [2, 0.5, 1]),
    (model_of(N, F, N, "CastMap", cast_to="TO_INT64"), {2: 1.0, 1: 3.0}, [3, 1]),
    (model_of(N, F, F, "CastMap", map_form="SPARSE", max_map=4), {3: 1.0, 0: 2.0}, [2, 0, 0, 1]),
]  # fmt: skip


@pytest.mark.parametrize(("model", "given", "wanted"), MAPS)
def test_a_map_gives_a_row(model: onnx.ModelProto, given: dict[Any, Any], wanted: list[float]) -> None:
    """ONNX Runtime gives the same of the map itself; from Python it takes maps to float alone."""
    made = assay.run(model, {"x": given})["y0"]
    assert made.dtype == helper.tensor_dtype_to_np_dtype(model.graph.output[0].type.tensor_type.elem_type)
    assert made.tobytes() == np.array([wanted], made.dtype).tobytes() and made.ndim == 2
    (verdict,) = assay.judge(model, "onnxruntime", {"x": given}, kinds="random").verdicts
    assert verdict.outcome == "right"
    if model.graph.input[0].type.map_type.value_type.tensor_type.elem_type == F:
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        (theirs,) = session.run(None, {"x": given})
        assert theirs.tobytes() == made.tobytes() and theirs.shape == made.shape


def test_a_vector_is_given_where_one_is_declared() -> None:
    """As the text of DictVectorizer says, with its own example."""
    model = model_of(S, F, F, VECTORIZER, rank=1, string_vocabulary=["a", "c", "b", "z"])
    assert assay.run(model, {"x": {"a": 4, "c": 8}})["y0"].tolist() == [4, 8, 0, 0]


def test_what_a_vector_stands_for_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Through the commands, which draw vectors; an array in a file is one."""
    path = tmp_path / "m.onnx"
    onnx.save(model_of(S, F, F, VECTORIZER, string_vocabulary=["b", "a"], times=2), path)
    np.savez(tmp_path / "in.npz", x=np.array([3, 4], np.float32))
    assert run_command(monkeypatch, "check", path, "--inputs", tmp_path / "in.npz", "--stop-after", "liveness") == 0
    assert "a column for each key of x: b, a;" in " ".join(capsys.readouterr().out.split())
    assert run_command(monkeypatch, "export", path, "-o", tmp_path / "out.onnx") == 0
    assert run_command(monkeypatch, "prove", path) == 2
    assert "symbolic.C3" in capsys.readouterr().err, "nothing that computes, and no map any more"
    given = {"x": {"c": 1.0}}
    with pytest.raises(Invalid, match=r"x has the key 'c'; x: b, a \[values\.C4\]"):
        assay.run(path, given)


@pytest.mark.parametrize(
    ("place", "given", "said"),
    [
        (0, {"a": "1.5"}, "x['a'] is '1.5'; a number of float32"),
        (2, {"b": 1.5}, "x['b'] is 1.5; a number of int64"),
        (2, {1: 1}, "x has the key 1; x: b"),
        (3, {1: 1.0, "a": 2.0}, "x has the key 'a'; x: all of its own, in ascending order"),
    ],
)
def test_what_is_no_such_map_is_told(place: int, given: dict[Any, Any], said: str) -> None:
    with pytest.raises(Invalid, match=re.escape(said) + r".*\[values\.C4\]"):
        assay.run(MAPS[place][0], {"x": given})


@pytest.mark.parametrize(
    "model",
    [
        model_of(N, S, S, VECTORIZER, int64_vocabulary=[1]),
        model_of(N, F, S, "CastMap", cast_to="TO_STRING"),
        model_of(S, F, F, VECTORIZER, string_vocabulary=["a", "a"]),
        model_of(S, F, F, VECTORIZER, int64_vocabulary=[1]),
        model_of(N, F, F, "CastMap", map_form="SPARSE", max_map=1 << 40),
        model_of(N, F, F, "Identity"),
    ],
)
def test_other_maps_stay_refused(model: onnx.ModelProto) -> None:
    assert with_rows(model, {})[0] is model
    with pytest.raises(Exception, match=r"onnx\.C8"):
        assay.run(model)


def test_maps_that_are_read_in_two_ways_stay_refused() -> None:
    model = model_of(S, F, F, VECTORIZER, string_vocabulary=["a", "b"], times=2)
    model.graph.node[1].attribute[0].strings[:] = [b"b", b"a"]
    assert with_rows(model, {})[0] is model

"""Tokenizer of com.microsoft beside ONNX Runtime, and pipelines that read strings, judged and checked."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper

import assay
from assay.semantics.errors import Invalid, Unsupported
from assay.verify.api.judge import judge
from assay.verify.border.drawn_texts import inputs_read
from assay.verify.plugins import onnx_backend

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("re2", reason="google-re2 is not installed")


def graph_of(nodes: Sequence[onnx.NodeProto], shape: Sequence[Any], *outputs: tuple[str, int]) -> ModelProto:
    """Nodes on an input x of strings."""
    made = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.STRING, shape)],
        [helper.make_tensor_value_info(name, of, None) for name, of in outputs],
    )  # fmt: skip
    sets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(made, opset_imports=sets, ir_version=9)


def tokenizer(x: str = "x", y: str = "y", **attrs: Any) -> onnx.NodeProto:
    given = {"mark": 0, "mincharnum": 1, "pad_value": "#", **attrs}
    return helper.make_node("Tokenizer", [x], [y], domain="com.microsoft", **given)


def theirs(model: ModelProto, x: Any) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, {"x": x})[0]


TEXTS = ["Hello World", "a b  c", " x ", "", "ab abab", "a;b, c.", "é1 été\n2", "xab b", "aXbxc"]
FORMS: list[dict[str, Any]] = [
    {"separators": [" "]}, {"separators": [" "], "mark": 1}, {"separators": [";", ",", " "]},
    {"separators": ["[;,. ]+"]}, {"separators": ["b", " "]}, {"separators": ["ab", "a"], "mincharnum": 2},
    {"separators": ["(?i)x"]}, {"separators": ["b$", "^x"]}, {"separators": [""]}, {"separators": [""], "mark": 1},
    {"tokenexp": "a|ab"}, {"tokenexp": "(a|ab)(c|bab)?"}, {"tokenexp": "b*"}, {"tokenexp": r"\b\w\w+\b"},
    {"tokenexp": "[a-zA-Z0-9_]+", "mark": 1}, {"tokenexp": "."}, {"tokenexp": "[^ ]+", "mincharnum": 3},
    {"tokenexp": "^a|b"}, {"tokenexp": "zzz", "mark": 1},
]  # fmt: skip


@pytest.mark.parametrize("attrs", FORMS, ids=str)
@pytest.mark.parametrize("shape", [(9,), (3, 3), (0,), (2, 0)], ids=str)
def test_tokens_are_those_of_onnx_runtime(attrs: dict[str, Any], shape: tuple[int, ...]) -> None:
    x = np.array(TEXTS[: int(np.prod(shape))], object).reshape(shape)
    model = graph_of([tokenizer(**attrs)], shape, ("y", TensorProto.STRING))
    (ours,) = onnx_backend.prepare(model).run([x])
    want = theirs(model, x)
    assert ours.shape == want.shape
    np.testing.assert_array_equal(ours, want)


@pytest.mark.parametrize(
    ("attrs", "x", "label", "said"),
    [
        ({}, ["a"], "onnx.C12", "one of separators and tokenexp"),
        ({"separators": [";"], "tokenexp": "a"}, ["a"], "onnx.C12", "and not both"),
        ({"separators": [";"], "mincharnum": 0}, ["a"], "onnx.C12", "at least 1"),
        ({"tokenexp": ""}, ["a"], "onnx.C12", "not to be empty"),
        ({"tokenexp": "."}, [[["a"]]], "onnx.C12", "a vector or rows"),
        ({"separators": [""], "mincharnum": 2}, ["a"], "onnx.C12", "each token is one character"),
        ({"tokenexp": "("}, ["a"], "onnx.C12", r"missing \)"),
        ({"separators": ["x*"]}, ["a"], "onnx.C14", "the empty string"),
    ],
    ids=str,
)
def test_what_no_tokenizer_is(attrs: dict[str, Any], x: Any, label: str, said: str) -> None:
    model = graph_of([tokenizer(**attrs)], np.shape(x), ("y", TensorProto.STRING))
    with pytest.raises((Invalid, Unsupported), match=f"{said}.*{re.escape(label)}"):
        onnx_backend.prepare(model).run([np.array(x, object)])


def test_without_google_re2_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    model = graph_of([tokenizer(tokenexp="a")], [1], ("y", TensorProto.STRING))
    with pytest.raises(Unsupported, match=r"pip install 'assay\[strings\]'"):
        onnx_backend.prepare(model).run([np.array(["a"], object)])


def pipeline() -> ModelProto:
    """Words counted as scikit-learn's CountVectorizer is written: flattened, in lower case, tokens, n-grams."""
    nodes = [
        helper.make_node("Flatten", ["x"], ["rows"], axis=1),
        helper.make_node("Constant", [], ["all"], value_ints=[-1]),
        helper.make_node("Reshape", ["rows", "all"], ["flat"]),
        helper.make_node("Tokenizer", ["flat"], ["tokens"], domain="com.microsoft", mark=0, mincharnum=1,
            pad_value="#", tokenexp="[a-z]+"),
        helper.make_node("TfIdfVectorizer", ["tokens"], ["y"], mode="TF", min_gram_length=1, max_gram_length=1,
            max_skip_count=0, ngram_counts=[0], ngram_indexes=[0, 1, 2], pool_strings=["cat", "dog", "mat"]),
    ]  # fmt: skip
    return graph_of(nodes, ["n", 1], ("y", TensorProto.FLOAT))


def test_a_pipeline_is_judged_on_strings_that_are_chosen_or_given() -> None:
    found = judge(pipeline(), "onnxruntime")
    assert found.holds, found.verdicts[0].closing()
    chosen = found.texts["x"].reshape(-1).tolist()
    assert any("cat" in t or "dog" in t or "mat" in t for t in chosen) and "" in chosen
    assert "strings chosen: x = " in "\n".join(found.opening())

    def miscounts(model: ModelProto, inputs: dict[str, Any]) -> dict[str, Any]:
        y = theirs_of(model, inputs)
        y[np.argmax(y.sum(1)), 0] += 1
        return {"y": y}

    def theirs_of(model: ModelProto, inputs: dict[str, Any]) -> Any:
        return onnxruntime.InferenceSession(model.SerializeToString()).run(["y"], inputs)[0]

    given = {"x": np.array([["the cat"], ["dog dog cat"]])}
    assert judge(pipeline(), lambda m, i: {"y": theirs_of(m, i)}, given).holds
    assert judge(pipeline(), miscounts, given).verdicts[0].outcome == "wrong"


def test_strings_that_are_made_go_out_too() -> None:
    model = graph_of([tokenizer(separators=[" "], mark=1)], ["n"], ("y", TensorProto.STRING))
    found = judge(model, "onnxruntime", {"x": np.array(["one two", "three"])})
    assert found.holds, found.verdicts[0].closing()

    def drops_a_mark(model: ModelProto, inputs: dict[str, Any]) -> dict[str, Any]:
        (y,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)
        return {model.graph.output[0].name: np.where(y == y.max(), y.min(), y)}

    assert judge(model, drops_a_mark, {"x": np.array(["one two", "three"])}).verdicts[0].outcome == "wrong"


def test_numerals_where_numbers_are_read() -> None:
    nodes = [
        helper.make_node("StringConcat", ["x", "x"], ["twice"]),
        helper.make_node("Cast", ["twice"], ["y"], to=TensorProto.INT64),
    ]
    model = graph_of(nodes, [3], ("y", TensorProto.INT64))
    # what is written twice is a numeral only where it has no sign, which the numerals that are drawn have
    assert judge(model, "onnxruntime", {"x": np.array(["1", "20", "3"])}).holds
    plain = graph_of([helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)], [5], ("y", TensorProto.FLOAT))
    found = judge(plain, "onnxruntime")
    assert found.holds and all(re.fullmatch("-?[0-9]+", t) for t in found.texts["x"].tolist())
    with pytest.raises(Invalid, match=r"onnx\.C1[23]"):
        judge(model, "onnxruntime")


def test_which_inputs_are_read() -> None:
    """Those that are only moved, compared and looked up are numbers, of which each set of inputs has others."""
    moved = [
        helper.make_node("Identity", ["x"], ["z"]),
        helper.make_node("LabelEncoder", ["z"], ["y"], domain="ai.onnx.ml", keys_strings=["a"], values_int64s=[1]),
    ]
    assert inputs_read(graph_of(moved, ["n"], ("y", TensorProto.INT64))) == []
    assert inputs_read(pipeline()) == ["x"]
    inner = helper.make_graph(
        [helper.make_node("RegexFullMatch", ["x"], ["r"], pattern="a")], "b", [],
        [helper.make_tensor_value_info("r", TensorProto.BOOL, None)],
    )  # fmt: skip
    choice = [
        helper.make_node("Constant", [], ["c"], value=helper.make_tensor("c", TensorProto.BOOL, [], [1])),
        helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner),
    ]
    assert inputs_read(graph_of(choice, ["n"], ("y", TensorProto.BOOL))) == ["x"]


def test_commands_take_such_a_pipeline(tmp_path: Path) -> None:
    onnx.save(pipeline(), tmp_path / "words.onnx")
    np.savez(tmp_path / "in.npz", x=np.array([["the cat"], ["Dog mat mat"]]))

    def told(*args: str) -> tuple[int, str]:
        made = subprocess.run(
            [sys.executable, "-m", "assay", *args], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        return made.returncode, made.stdout + made.stderr

    assert told("run", "words.onnx", "--inputs", "in.npz")[1].count("[1., 0., 0.]") == 1
    assert told("check", "words.onnx", "--inputs", "in.npz", "--quiet")[0] == 0
    code, said = told("judge", "words.onnx", "--backend", "onnxruntime")
    assert (code, "strings chosen: x = " in said) == (0, True), said
    assert assay.judge(str(tmp_path / "words.onnx"), "onnxruntime", str(tmp_path / "in.npz")).holds

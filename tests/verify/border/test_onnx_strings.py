"""Strings of ONNX as numbers: what moves, compares and reads them, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

from assay.interp import graph
from assay.lower.frontends.onnx.model import import_onnx
from assay.lower.frontends.onnx.string_table import Strings
from assay.semantics.errors import Invalid, Trap, Unsupported
from assay.verify.plugins import onnx_backend
from tests.lower.frontends.onnx.onnx_own_cases import named

WORDS = np.array(["a", "b", "", "é", "a"], object)


def model(
    op: str,
    shapes: Sequence[Sequence[Any]],
    output: int = TensorProto.STRING,
    *,
    domain: str = "",
    others: Mapping[str, Any] | None = None,
    **attrs: Any,
) -> ModelProto:
    """One node: inputs s0, s1, ... of strings, `others` stored; one output y."""
    names = [f"s{i}" for i in range(len(shapes))]
    node = helper.make_node(op, [*names, *(others or {})], ["y"], domain=domain, **attrs)
    given = [helper.make_tensor_value_info(n, TensorProto.STRING, s) for n, s in zip(names, shapes, strict=True)]
    kinds = {
        np.dtype(object): TensorProto.STRING,
        np.dtype(np.int64): TensorProto.INT64,
        np.dtype(bool): TensorProto.BOOL,
    }
    stored = [
        helper.make_tensor(
            n, kinds[a.dtype], a.shape, [s.encode() for s in a.reshape(-1)] if a.dtype == object else a.reshape(-1)
        )
        for n, a in (others or {}).items()
    ]
    made = helper.make_graph([node], "g", given, [helper.make_tensor_value_info("y", output, None)], stored)
    sets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 4)]
    return helper.make_model(made, opset_imports=sets, ir_version=9)


def run(made: ModelProto, *inputs: Any) -> Any:
    (found,) = onnx_backend.prepare(made).run([np.asarray(i, object) for i in inputs])
    return found


def test_onnx_cases() -> None:
    """The values only; that they pass is shown by the list of those that do not (tests/verify)."""
    cases = named("string_ strnorm regex_ equal_string ai_onnx_ml_label_encoder")
    assert len(cases) >= 26
    for case in cases:
        for inputs, outputs in case.data_sets or []:
            found = onnx_backend.prepare(case.model).run(list(inputs))
            for got, want in zip(found, outputs, strict=True):
                np.testing.assert_array_equal(got, np.asarray(want), err_msg=case.name)


def test_one_module_for_all_strings() -> None:
    """What moves or compares strings is imported once, and takes strings that the import never saw."""
    rep = onnx_backend.prepare(model("Equal", [["n"], [1]], TensorProto.BOOL))
    assert rep.module is not None
    (same,) = rep.run([WORDS, np.array(["a"], object)])
    assert same.tolist() == [True, False, False, False, True]
    (same,) = rep.run([np.array(["new", "x"], object), np.array(["new"], object)])
    assert same.tolist() == [True, False]


def test_strings_are_moved() -> None:
    np.testing.assert_array_equal(run(model("Concat", [[5], [1]], axis=0), WORDS, ["z"]), [*WORDS, "z"])
    np.testing.assert_array_equal(run(model("Gather", [[5]], others={"i": np.array([3, -5])}), WORDS), ["é", "a"])
    np.testing.assert_array_equal(
        run(model("Reshape", [[4]], others={"i": np.array([2, 2])}), WORDS[:4]), WORDS[:4].reshape(2, 2)
    )
    np.testing.assert_array_equal(run(model("Identity", [["n"]]), WORDS), WORDS)
    assert run(model("Size", [["n"]], TensorProto.INT64), WORDS) == 5
    np.testing.assert_array_equal(
        run(model("Concat", [[5]], others={"c": np.array(["q"], object)}, axis=0), WORDS), [*WORDS, "q"]
    )


def test_constants_that_are_strings() -> None:
    for attrs in (
        {"value_strings": ["x", "y"]},
        {"value": helper.make_tensor("v", TensorProto.STRING, [2], [b"x", b"y"])},
    ):
        np.testing.assert_array_equal(run(model("Constant", [], **attrs)), ["x", "y"])
    assert run(model("Constant", [], value_string="x")).tolist() == "x"


def test_labels_and_ngrams() -> None:
    ml = {"domain": "ai.onnx.ml"}
    found = run(
        model("LabelEncoder", [[5]], **ml, keys_strings=["a", "é"], values_strings=["b", "new"], default_string="?"),
        WORDS,
    )
    np.testing.assert_array_equal(found, ["b", "?", "?", "new", "b"])
    attrs = {
        "ngram_counts": [0, 2],
        "ngram_indexes": [0, 1, 2],
        "min_gram_length": 1,
        "max_gram_length": 2,
        "max_skip_count": 0,
    }
    counted = run(
        model("TfIdfVectorizer", [[5]], TensorProto.FLOAT, **attrs, mode="TF", pool_strings=["a", "é", "a", "b"]), WORDS
    )
    assert counted.tolist() == [2, 1, 1]


def test_what_reads_characters_is_for_these_strings() -> None:
    """The module asserts what it was made for."""
    table = Strings()
    made = model("RegexFullMatch", [[2]], TensorProto.BOOL, pattern="a+")
    with pytest.raises(Unsupported, match=r"onnx.C13"):
        import_onnx(made, evaluate=graph.evaluate, strings=table)
    module = import_onnx(made, evaluate=graph.evaluate, strings=table, values={"s0": np.array(["aa", "ab"], object)})
    assert graph.run(module, {"s0": table.numbers(["aa", "ab"])})["y"].tolist() == [True, False]
    with pytest.raises(Trap, match=r"assert_op.T1"):
        graph.run(module, {"s0": table.numbers(["aa", "aa"])})


def test_numbers_in_strings() -> None:
    floats = run(model("Cast", [[3]], TensorProto.FLOAT, to=TensorProto.FLOAT), ["1.5", "-INF", "1e-3"])
    np.testing.assert_array_equal(floats, np.array([1.5, -np.inf, 1e-3], np.float32))
    assert run(model("Cast", [[2]], TensorProto.INT64, to=TensorProto.INT64), ["-3", "12"]).tolist() == [-3, 12]
    assert run(model("Cast", [[2]], to=TensorProto.STRING), ["x", "y"]).tolist() == ["x", "y"]


@pytest.mark.parametrize(
    ("made", "inputs", "label"),
    [
        (model("Cast", [[1]], TensorProto.FLOAT, to=TensorProto.FLOAT), [["x"]], "onnx.C12"),
        (model("StringConcat", [[2], [3]]), [["x", "y"], ["a", "b", "c"]], "onnx.C12"),
        (model("StringNormalizer", [[1, 1, 1]]), [[[["x"]]]], "onnx.C12"),
        (model("StringNormalizer", [[1]], case_change_action="TITLE"), [["x"]], "onnx.C12"),
        (model("RegexFullMatch", [[1]], TensorProto.BOOL, pattern="("), [["x"]], "onnx.C12"),
        (model("Unique", [[2]]), [["x", "y"]], "onnx.C14"),
        (model("ScatterElements", [[2]], others={"i": np.array([0]), "u": np.array(["z"], object)}, reduction="add"),
            [["x", "y"]], "onnx.C14"),
        (model("Equal", [[2], [2]]), [["x", "y"], ["x", "y"]], "onnx.C11"),
        (model("Identity", [[2]], TensorProto.INT64), [["x", "y"]], "onnx.C11"),
        (model("Abs", [[2]]), [["x", "y"]], "onnx.C7"),
        (model("LabelEncoder", [[1]], TensorProto.INT64, domain="ai.onnx.ml", keys_int64s=[1], values_int64s=[2]),
            [["x"]], "onnx.C12"),
        (model("LabelEncoder", [[1]], TensorProto.INT64, domain="ai.onnx.ml"), [["x"]], "onnx.C12"),
    ],
    ids=lambda x: x.graph.node[0].op_type if isinstance(x, ModelProto) else "",
)  # fmt: skip
def test_invalid(made: ModelProto, inputs: Sequence[Any], label: str) -> None:
    with pytest.raises(Invalid, match=re.escape(f"[{label}]")):
        run(made, *inputs)


def test_stored_strings_that_are_damaged() -> None:
    for stored in (
        TensorProto(data_type=TensorProto.STRING, dims=[3], string_data=[b"x"], name="c"),
        TensorProto(data_type=TensorProto.STRING, dims=[1], string_data=[b"\xff"], name="c"),
    ):
        made = model("Concat", [[1]], others={"c": np.array(["q"], object)}, axis=0)
        made.graph.initializer[0].CopyFrom(stored)
        with pytest.raises(Invalid, match=r"onnx.C9"):
            import_onnx(made, evaluate=graph.evaluate, strings=Strings())


def test_without_a_table_strings_are_refused() -> None:
    for made, label in ((model("Identity", [[1]]), "onnx.C8"), (model("Constant", [], value_string="x"), "onnx.C8")):
        with pytest.raises(Unsupported, match=label):
            import_onnx(made, evaluate=graph.evaluate)


def test_a_table_of_strings() -> None:
    table = Strings()
    numbers = table.numbers([["x", "y"], [b"x", "z"]])
    assert numbers.tolist() == [[0, 1], [0, 2]] and numbers.dtype == np.int64
    assert table.texts(numbers).tolist() == [["x", "y"], ["x", "z"]]
    with pytest.raises(Invalid, match=r"onnx.C8"):
        table.texts(np.array([3]))


def test_numbers_as_strings() -> None:
    """Plain representation; infinities and NaN by the literals that a cast from a string reads."""
    for given, wanted in [
        (
            np.array([314.5, 1e-5, -2.0, np.nan, np.inf, -np.inf], np.float32),
            ["314.5", "0.00001", "-2.0", "NaN", "INF", "-INF"],
        ),
        (np.array([-3, 2**40]), ["-3", "1099511627776"]),
        (np.array([True, False]), ["1", "0"]),
    ]:
        node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.STRING)
        kind = helper.np_dtype_to_tensor_dtype(given.dtype)
        graph_ = helper.make_graph(
            [node],
            "g",
            [helper.make_tensor_value_info("x", kind, given.shape)],
            [helper.make_tensor_value_info("y", TensorProto.STRING, given.shape)],
        )
        made = helper.make_model(graph_, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        (found,) = onnx_backend.prepare(made).run([given])
        assert found.tolist() == wanted

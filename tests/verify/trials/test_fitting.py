"""Sizes that are chosen by what a program asserts of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import parser

from assay.interp.graph import evaluate
from assay.lower.frontends.onnx.model import import_onnx
from assay.semantics.errors import Invalid
from assay.semantics.graph import assert_op, call, constant, function, let, var
from assay.semantics.module import Module
from assay.semantics.scalar import Var
from assay.semantics.types import TensorType, symbols
from assay.verify.api.judge import with_chosen_sizes
from assay.verify.trials.fitting import NUMBERS, facts_of, fitting_sizes

pytestmark = pytest.mark.row("J11")


def _parsed(text: str) -> onnx.ModelProto:
    made: onnx.ModelProto = parser.parse_model('<ir_version: 8, opset_import: ["" : 18]>\n' + text)
    return made


PAST = _parsed("""
past (float[batch, 2, old, 4] cache, float[batch, 2, new, 4] keys, float[whole, 3] by) => (float[b, 2, 4, 3] y) {
    all = Concat <axis: int = 2> (cache, keys)
    turned = Transpose <perm: ints = [0, 1, 3, 2]> (all)
    y = MatMul (turned, by)
}""")
"""A product over old + new elements, with as many rows of `by`."""


def _about(model: onnx.ModelProto) -> list[Var]:
    module = import_onnx(model, evaluate=evaluate)
    return list(dict.fromkeys(s for p in module.main.params for s in symbols(p.type)))


def test_every_choice_holds_what_is_asserted() -> None:
    module = import_onnx(PAST, evaluate=evaluate)
    about = list(dict.fromkeys(s for p in module.main.params for s in symbols(p.type)))
    assert [f.symbols for f in facts_of(module, about)] == [set(about) - {about[0]}]
    found = [{s.name: n for s, n in sizes.items()} for sizes in fitting_sizes(module, about, most=50)]
    assert len(found) == 50 and all(s["old"] + s["new"] == s["whole"] for s in found)
    assert len({tuple(s.values()) for s in found}) == 50
    assert found[0].keys() == {"batch", "old", "new", "whole"}
    whole = next(s for s in about if s.name == "whole")
    fixed = [{s.name: n for s, n in sizes.items()} for sizes in fitting_sizes(module, about, 8, {whole: 1})]
    assert len(fixed) == 8 and all(s["whole"] == 1 == s["old"] + s["new"] for s in fixed)


def test_the_judge_runs_at_sizes_that_fit() -> None:
    """No row of different primes has one size that is the sum of two others."""
    subject, chosen = with_chosen_sizes(PAST, {}, {}, "past.onnx", 0)
    assert chosen["old"] + chosen["new"] == chosen["whole"]
    assert subject.dims == chosen
    subject, chosen = with_chosen_sizes(PAST, {"old": 6}, {}, "past.onnx", 0)
    assert 6 + chosen["new"] == chosen["whole"] and subject.dims == {**chosen, "old": 6}


def test_where_no_sizes_fit_the_dims_are_named() -> None:
    """A size above all that are tried."""
    wide = max(*NUMBERS, 500)
    model = _parsed(f"far (float[n, 2] a, float[m, 2] b, float[{wide}] c) => (float[k, 2] y) {{"
                    "  both = Concat <axis: int = 0> (a, b)"
                    "  line = Reshape <allowzero: int = 1> (c, shape)"
                    "  y = MatMul (line, both) }")  # fmt: skip
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1, wide]), "shape"))
    with pytest.raises(Invalid, match=r"no sizes were found.*say them with --dim, for n, m.*judge\.C1"):
        with_chosen_sizes(model, {}, {}, "far.onnx", 0)


def test_sizes_are_as_large_as_is_declared_or_asserted() -> None:
    """An image of 33 or more, which is halved three times to rows of at least 8."""
    n, m = Var("n"), Var("m")
    x = var("x", TensorType((n, m), "float32"))
    tall = call("take", call("shape_of", x), constant(np.int64(1)), axis=0)
    check = assert_op(call("greater_equal", call("floor_divide", tall, constant(np.int64(8))), constant(np.int64(8))))
    main = function([x], let(var("checked", check.type), check, x))
    module = Module({"main": replace(main, attrs={"tir_var_lower_bound": {"n": 33}, "tir_var_upper_bound": {"n": 35}})})
    found = [(at[n], at[m]) for at in fitting_sizes(module, [n, m], 8)]
    assert len(found) > 2 and all(33 <= a <= 35 and b // 8 >= 8 for a, b in found)


def test_a_choice_ends_where_there_is_none() -> None:
    module = import_onnx(PAST, evaluate=evaluate)
    assert list(fitting_sizes(module, _about(PAST)[:0])) == []


def test_who_traps_at_all_sizes_is_judged_on_given_inputs() -> None:
    """Nobody is judged then: it is no answer about a backend, and ends as the request does."""
    text = '<ir_version: 8, opset_import: ["": 17, "ai.onnx.ml": 1]> g (int64[N] x) => (float[N, 2] y) {'
    encoder = "ai.onnx.ml.OneHotEncoder <cats_int64s = [1000, 1001], zeros = 0>"
    model = parser.parse_model(f"{text} two = Constant<value_int = 2>() p = Pow(x, two) y = {encoder}(p) }}")
    with pytest.raises(Invalid, match="give others with --inputs: .* none of the categories") as wrong:
        with_chosen_sizes(model, {}, {}, "ohe.onnx", 0)
    assert wrong.value.label == "input.C7"
    model.graph.node[1].op_type = "Add"
    with_chosen_sizes(model, {}, {"x": np.array([998, 999])}, "ohe.onnx", 0)

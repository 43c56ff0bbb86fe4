"""Inputs hold what a program asserts of them: none of them was judged, for the program trapped on others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import assay
from assay.interp.graph import run
from assay.lower.frontends.stablehlo.build import HloBuilder
from assay.lower.frontends.torch_export.node import AtenNode
from assay.lower.frontends.torch_export.operators.indexing import ascending
from assay.semantics.composed.searching import searched
from assay.semantics.dtypes import FLOAT32
from assay.semantics.graph import Expr, call, function, var
from assay.semantics.module import Module
from assay.semantics.types import TensorType
from assay.verify.backends import Subject, backend, subject_of_model
from assay.verify.backends.protocol import Prepared
from assay.verify.judge import demanded
from assay.verify.judge.samples import input_sets

ML = "ai.onnx.ml"


def encoder(of: str) -> str:
    kind = "cats_strings" if '"' in of else "cats_int64s"
    return f"{ML}.OneHotEncoder<{kind} = [{of}], zeros = 0>"


def model(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17, "{ML}": 3]> g {text}')


COLUMNS = model(
    "(float[4, 3] x) => (float[4, 1, 3] y, float[4, 1, 2] z) { i = Constant<value_ints = [2]>()"
    " j = Constant<value_ints = [0]>() a = Gather<axis = 1>(x, i) b = Gather<axis = 1>(x, j)"
    f" y = {encoder('5, 9, 12')}(a) z = {encoder('-7, 40')}(b) }}"
)


def sets(of: onnx.ModelProto, given: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    kinds = ("random", "large", "specials")
    return [dict(s.inputs) for s in input_sets(subject_of_model(of).module, given or {}, kinds, 2, 0)]


def test_each_column_holds_what_its_encoder_takes_and_the_others_anything() -> None:
    found = np.concatenate([s["x"] for s in sets(COLUMNS)])
    assert {*found[:, 2]} == {5, 9, 12} and {*found[:, 0]} == {-7, 40}
    assert len(np.unique(found[:, 1])) == len(found) >= 8, "nothing is asked of them"


@pytest.mark.parametrize(
    "text",
    [
        f"(int64[3] x) => (float[3, 2] y) {{ y = {encoder('1000, -1')}(x) }}",
        f"(int32[3] x) => (float[3, 2] y) {{ y = {encoder('1000, -1')}(x) }}",
        f"(int64 x) => (float[2] y) {{ y = {encoder('1000, -1')}(x) }}",
        f"(int64[2, 1] x, int64[2, 1] z) => (float[2, 2, 2] y) {{ c = Concat<axis=1>(x, z) y = {encoder('8, 9')}(c) }}",
    ],
    ids=["int64", "int32", "scalar", "concat"],
)  # fmt: skip
def test_programs_run_on_what_is_drawn(text: str) -> None:
    made = model(text)
    found = sets(made)
    assert len(found) > 1
    for inputs in found:
        run(subject_of_model(made).module, inputs)


def test_what_no_category_itself_serves_is_as_it_was() -> None:
    made = model(f"(int64[2] x) => (float[2, 1] y) {{ s = Mul(x, x) y = {encoder('6400')}(s) }}")
    with pytest.raises(assay.Trap, match="none of the categories"):
        run(subject_of_model(made).module, sets(made)[0])


def test_what_is_given_stays_and_too_many_columns_are_taken_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    given = np.float32([[1, 2, 3]] * 4)
    assert [s["x"] is given for s in sets(COLUMNS, {"x": given})] == [True]
    several = model(f"(int64[2, 3] x) => (float[2, 3, 2] y) {{ y = {encoder('70, 80')}(x) }}")
    monkeypatch.setattr(demanded, "MOST_RUNS", 5)  # two columns' worth
    assert {*np.concatenate([s["x"] for s in sets(several)]).reshape(-1)} == {70, 80}
    monkeypatch.setattr(demanded, "MOST_RUNS", 1)
    assert not {*np.concatenate([s["x"] for s in sets(several)]).reshape(-1)} & {70, 80}


class Mixed:
    """Takes each category for the next one."""

    name = "mixed"

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        right = backend("numpy").prepare(subject, wanted)
        return lambda inputs: {n: np.roll(np.asarray(v), 1, axis=-1) for n, v in right(inputs).items()}


def test_strings_are_drawn_and_who_mixes_them_up_is_wrong() -> None:
    text = "(string[N, 2] s) => (float[N, 1, 3] y, float[N, 1, 2] z) { i = Constant<value_ints = [0]>()"
    text += " j = Constant<value_ints = [1]>() a = Gather<axis = 1>(s, i) b = Gather<axis = 1>(s, j)"
    codes = encoder('"a", "b", "c"'), encoder('"x", "y"')
    made = model(f"{text} y = {codes[0]}(a) z = {codes[1]}(b) }}")
    right, wrong = assay.judge(made, ["numpy", Mixed()], kinds="random").verdicts
    assert right.outcome == "right" and len(right.samples) > 1 and wrong.outcome == "wrong"


def test_the_lowering_is_checked_on_categories() -> None:
    text = f"(int64[2, 3] x) => (float[2, 3, 2] y) {{ y = {encoder('70000, -80000')}(x) }}"
    assert assay.check(model(text)).holds


def search(of: Callable[[Expr], Expr]) -> Module:
    """How many boundaries, which are computed of b, are below the elements of x, as PyTorch's searches are read."""
    x, b = (var(n, TensorType(shape, FLOAT32)) for n, shape in (("x", (3, 4, 1)), ("b", (6,))))
    made = HloBuilder()
    node = AtenNode(made, "searchsorted", "", {})
    edges = of(b)
    condition = ascending(node, edges)
    assert condition is not None
    node.require(condition, "the boundaries do not ascend")
    return Module({"main": function([x, b], made.around(searched(node, edges, x, False), made.scope))})


class Turned:
    """Takes a number that is a boundary for one above it."""

    name = "turned"

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        (out,) = wanted
        return lambda inputs: {out: np.searchsorted(inputs["b"], inputs["x"][..., 0], side="right")}


@pytest.mark.parametrize("of", [lambda b: b, lambda b: call("add", b, b)], ids=["itself", "computed"])
def test_boundaries_ascend_and_meet_numbers(of: Callable[[Expr], Expr]) -> None:
    module = search(of)
    found = [s.inputs["b"] for s in input_sets(module, {}, ("random", "ties", "specials"), 2, 0)]
    assert len(found) > 1 and all((b[:-1] <= b[1:]).all() and np.unique(b).size > 1 for b in found)


def test_who_mixes_up_the_sides_is_wrong() -> None:
    right, wrong = assay.judge(search(lambda b: b), ["numpy", Turned()], runs=2).verdicts
    assert (right.outcome, wrong.outcome) == ("right", "wrong")


def test_boundaries_that_no_order_mends_are_as_they_were() -> None:
    (verdict,) = assay.judge(search(lambda b: call("negative", b)), ["numpy"], kinds="random").verdicts
    assert verdict.outcome == "unpredictable"

"""Subnormal numbers that are taken for zeros: allowed where it is declared, said always, and hiding nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnx.parser
import pytest

from assay.semantics.dtypes import DTYPES
from assay.semantics.graph import Expr, call, constant, function, var
from assay.semantics.module import Module
from assay.semantics.types import TensorType
from assay.verify.backends import Subject, subject_of_model
from assay.verify.judge.run import JudgeRun
from assay.verify.judge.samples import Sample
from assay.verify.oracle import Oracle, Verdict, judge_backend
from assay.verify.oracle.declarations import Accepts, flushed

Array = np.ndarray[Any, Any]
Tensors = Mapping[str, Array]
F = np.float32
TINY = np.array([2e-39, 1, -3e-39, 4], F)
HALF = np.full(4, 0.5, F)


def program(body: str, outputs: str = "float[4] y, float[4] z") -> Subject:
    return subject_of_model(
        onnx.parser.parse_model(
            f'<ir_version: 8, opset_import: ["" : 17]> g (float[4] x, float[4] h) => ({outputs}) {{ {body} }}'
        )
    )


class Planted:
    """A backend by its formula, which shows the tensors that the formula names."""

    name = "planted"

    def __init__(self, formula: Callable[[Array, Array], Tensors], declares: bool) -> None:
        self.formula, self.accepts = formula, ("flushes",) if declares else ()

    def prepare(self, subject: Subject, wanted: Any) -> Any:
        def run(inputs: Tensors) -> Tensors:
            with np.errstate(all="ignore"):
                found = self.formula(inputs["x"], inputs["h"])
            return {n: found[n] for n in wanted if n in found}

        return run


def verdict_on(
    subject: Subject, formula: Callable[[Array, Array], Tensors], declares: bool, x: Array = TINY
) -> Verdict:
    return judge_backend(subject, Planted(formula, declares), {"x": x, "h": HALF}, others=False)


TWO = program("y = Mul(x, h) z = Neg(x)")
STEPS = program("a = Mul(x, h) y = Div(h, a)", "float[4] y")
CHOICE = program("a = Abs(x) b = Cast<to = 1>(h) c = Less(b, a) y = Where(c, h, x) z = Log(a)")


@pytest.mark.parametrize(
    "formula",
    [
        lambda x, h: {"y": flushed(x * h), "z": -x},
        lambda x, h: {"y": x * h, "z": flushed(-flushed(x))},
        lambda x, h: {"y": np.where([True, False, False, True], flushed(x * h), x * h), "z": -x},
    ],
    ids=["one operator", "another one", "one element"],
)
def test_what_is_declared_is_right_and_said(formula: Callable[[Array, Array], Tensors]) -> None:
    found = verdict_on(TWO, formula, True)
    assert found.outcome == "right" and "as it takes subnormal numbers for zeros, which it declares (flushes)" in str(
        found
    )
    found = verdict_on(TWO, formula, False)
    assert found.outcome == "wrong" and "nothing else is wrong: subnormal numbers are taken for zeros" in str(found)


def test_what_is_kept_rests_on_nothing() -> None:
    found = verdict_on(TWO, lambda x, h: {"y": x * h, "z": -x}, True)
    assert found.outcome == "right" and "flushes" not in str(found)


LARGER = program("k = Constant<value_floats = [3.0e-39]>() y = Max(x, k)", "float[4] y")


FAULTS: dict[str, tuple[Subject, Callable[[Array, Array], Tensors], Array, str]] = {
    "an operator behind": (TWO, lambda x, h: {"y": flushed(x * h), "z": x}, TINY, "Neg"),
    "another element": (TWO, lambda x, h: {"y": flushed(x * h) + (x == 4), "z": -x}, TINY, "Mul"),
    "the sign of a zero": (TWO, lambda x, h: {"y": flushed(x * h), "z": 0 - x}, TINY * F([1, 0, 1, 1]), "Neg"),
    "neither of two": (
        STEPS, lambda x, h: {"a": x * h, "y": np.where(np.abs(x) < 1e-38, F(50), h / (x * h))}, TINY, "Div",
    ),
    "between zero and a product": (
        TWO, lambda x, h: {"y": np.where(np.abs(x * h) < 1e-38, F(3e-39), x * h), "z": -x}, TINY + F(2e-38), "Mul",
    ),
    "between two that are equal to zero": (
        LARGER, lambda x, h: {"y": np.where(x == 4, x, F(2.5e-39))}, np.array([2e-39, 2e-39, 2e-39, 4], F), "Max",
    ),
    "a normal number": (TWO, lambda x, h: {"y": np.where(np.abs(x * h) < 1, 0 * x, x * h), "z": -x}, HALF, "Mul"),
}  # fmt: skip


@pytest.mark.parametrize("declares", [True, False])
@pytest.mark.parametrize("name", FAULTS)
def test_it_hides_nothing(name: str, declares: bool) -> None:
    """Planted faults beside numbers that are flushed: each is named, as the operator that has it."""
    subject, formula, x, culprit = FAULTS[name]
    found = verdict_on(subject, formula, declares, x)
    assert found.outcome == "wrong" and (found.culprit or "").startswith(culprit), str(found)
    assert "nothing else is wrong" not in str(found)


def test_an_operand_may_be_taken_for_zero() -> None:
    """The quotient is infinite then, and nothing between that and what it is otherwise is right."""
    shown = verdict_on(STEPS, lambda x, h: {"a": x * h, "y": h / flushed(x * h)}, True)
    assert shown.outcome == "right" and "which it declares (flushes)" in str(shown)


@pytest.mark.parametrize(("given", "outcome"), [(0.0, "right"), (2.0**-126, "right"), (2.0**-127, "wrong")])
def test_a_product_that_may_round_to_a_subnormal_number(given: float, outcome: str) -> None:
    """Faithful rounding may give the least normal number, or one below, which becomes zero; and none between."""
    x = np.full(4, 1.5 * 2.0**-125, F)
    subject = program("k = Constant<value_floats = [0.33333334]>() y = Mul(x, k)", "float[4] y")
    found = verdict_on(subject, lambda x, h: {"y": np.full(4, given, F)}, True, x)
    assert found.outcome == outcome, str(found)


def test_a_comparison_goes_either_way_and_no_further() -> None:
    def zeros(x: Array, h: Array) -> Tensors:
        a = flushed(np.abs(x))
        return {"y": np.where(h < a, h, x), "z": np.log(a)}

    assert verdict_on(CHOICE, zeros, True).outcome == "right"


@pytest.mark.parametrize(
    ("given", "outcome"), [([2e-39, 0, -3e-39, 0], "right"), ([0, 0, 0, 0], "right"), ([3e-39, 0, 0, 0], "wrong")]
)
def test_what_compares_zeros_gives_what_stands_there(given: list[float], outcome: str) -> None:
    """Min of a subnormal number and 0 is either of them, for they are equal; and no number above both."""
    subject = program("k = Constant<value_floats = [0.0]>() y = Min(x, k)", "float[4] y")
    x = np.array([2e-39, 1, -3e-39, 0.25], F)
    found = verdict_on(subject, lambda x, h: {"y": np.array(given, F)}, True, x)
    assert found.outcome == outcome, str(found)


def test_what_nothing_is_known_of_is_not_right() -> None:
    """Where what was used is not shown, the quotient by what may be zero may be anything: that is undecided."""
    found = verdict_on(STEPS, lambda x, h: {"y": np.where(np.abs(x) < 1e-38, F(1e38) * np.sign(x), h / (x * h))}, True)
    assert found.outcome == "undecided", str(found)


def test_each_tensor_is_told_apart() -> None:
    """In a run in which something is wrong, one that is flushed alone is not called wrong."""
    subject, formula, x, _ = FAULTS["an operator behind"]
    sample = Sample("given", 0, {"x": x, "h": HALF})
    (found,) = JudgeRun(subject, [sample], [Planted(formula, True)], detailed=True, others=False).verdicts()
    assert {t.tensor: t.outcome for t in found.samples[0].tensors} == {"y": "open", "z": "wrong"}


def test_what_an_operator_made_of_a_flushed_number_is_not_known_to_the_next() -> None:
    """Kept by a campaign: Ceil of Floor of a subnormal number, by XLA; -1 where it is kept, 0 where it is not."""
    x = var("x", TensorType((2,), DTYPES["float32"]))
    body = call("ceil", call("floor", x))
    module = Module({"main": replace(function([x], body), attrs={"outputs": ("y",)})})
    inputs = {"x": np.array([-1e-40, -1.5], np.float32)}
    flushing, keeping = Oracle(module, accepts=Accepts(flushes=True)), Oracle(module)
    for first, allowed in ((-1.0, "right"), (-0.0, "right"), (-2.0, "wrong"), (5.0, "wrong")):
        given = {"y": np.array([first, -2], np.float32)}
        assert flushing.judge(inputs, given).outcome == allowed
        assert keeping.judge(inputs, given).outcome == ("right" if first == -1 else "wrong")
    assert flushing.judge(inputs, {"y": np.array([-0.0, -1], np.float32)}).outcome == "wrong"


def combined(op: str, how: str = "mul") -> Module:
    """What three numbers make by one operator, a product."""
    x, u = (var(n, TensorType(shape, DTYPES["float32"])) for n, shape in (("x", (1,)), ("u", (2, 1))))
    places = constant(np.zeros((2, 1), np.int64))
    if op == "scatter_nd":
        body: Expr = call("scatter_nd", x, places, call("reshape", u, shape=(2,)), reduction=how)
    else:
        body = call(op, call("concat", call("reshape", x, shape=(1, 1)), u, axis=0), **OF[op])
        body = call("reshape", body, shape=(1,)) if op == "prod" else call("take", body, constant(np.int64(2)), axis=0)
    return Module({"main": replace(function([x, u], body), attrs={"outputs": ("y",)})})


OF: Mapping[str, Mapping[str, Any]] = {
    "prod": {"axis": (0,), "keepdims": False},
    "cumprod": {"axis": 0, "exclusive": False},
    "cumsum": {"axis": 0, "exclusive": False},
}


@pytest.mark.parametrize("op", ["prod", "cumprod", "scatter_nd"])
def test_a_partial_product_may_be_flushed(op: str) -> None:
    """Kept by a campaign: a product of normal numbers which is one, 0 by XLA, for two of them meet as a subnormal."""
    module = combined(op)
    inputs = {"x": np.array([1e-20], F), "u": np.array([[1e-19], [1e4]], F)}
    flushing, keeping = Oracle(module, accepts=Accepts(flushes=True)), Oracle(module)
    exact = F(1e-35)
    for given, declared, undeclared in (
        (exact, "right", "right"),
        (0, "right", "wrong"),
        (2 * exact, "wrong", "wrong"),
    ):
        assert flushing.judge(inputs, {"y": np.array([given], F)}).outcome == declared, given
        assert keeping.judge(inputs, {"y": np.array([given], F)}).outcome == undeclared, given
    ordinary = {**inputs, "x": np.array([1e-5], F)}
    assert flushing.judge(ordinary, {"y": np.zeros(1, F)}).outcome == "wrong"


@pytest.mark.parametrize("op", ["prod", "scatter_nd"])
def test_a_partial_product_in_another_order_is_rounded_as_a_subnormal(op: str) -> None:
    inputs = {"x": np.array([1e-30], F), "u": np.array([[1e20], [3.3e-14]], F)}
    early = F(F(1e-30) * F(3.3e-14)) * F(1e20)
    assert abs(early / 3.3e-24 - 1) > 1e-3
    oracle = Oracle(combined(op))
    for given, outcome in ((early, "right"), (F(3.3e-24), "right"), (F(1e-23), "wrong")):
        assert oracle.judge(inputs, {"y": np.array([given], F)}).outcome == outcome


@pytest.mark.parametrize("op", ["scatter_nd", "cumsum"])
def test_a_partial_sum_may_be_flushed(op: str) -> None:
    inputs = {"x": np.array([2e-38], F), "u": np.array([[-1.5e-38], [1e-37]], F)}
    oracle = Oracle(combined(op, "add"), accepts=Accepts(flushes=True))
    for given, outcome in ((1.05e-37, "right"), (1e-37, "right"), (2e-37, "wrong")):
        assert oracle.judge(inputs, {"y": np.array([given], F)}).outcome == outcome, given


def alone(op: str, shape: tuple[int, ...], **attrs: Any) -> Module:
    """One operator of one operand."""
    x = var("x", TensorType(shape, DTYPES["float32"]))
    return Module({"main": replace(function([x], call(op, x, **attrs)), attrs={"outputs": ("y",)})})


def test_the_steps_of_a_function_may_be_flushed() -> None:
    """Kept by a campaign: asin of 1.326e-38, which is 2 atan(x / 2) near there, 0 by XLA."""
    oracle = Oracle(alone("asin", (3,)), accepts=Accepts(flushes=True))
    inputs = {"x": np.array([1.326e-38, 1e-36, 0.5], F)}
    right = np.arcsin(inputs["x"])
    for first, outcome in ((right[0], "right"), (0.0, "right"), (2e-37, "wrong")):
        assert oracle.judge(inputs, {"y": np.array([first, *right[1:]], F)}).outcome == outcome
    assert oracle.judge(inputs, {"y": np.array([0, 0, right[2]], F)}).outcome == "wrong"
    assert Oracle(alone("asin", (3,))).judge(inputs, {"y": np.array([0, *right[1:]], F)}).outcome == "wrong"


def test_of_subnormal_numbers_any_is_the_greatest() -> None:
    """Kept by a campaign: those that are flushed are equal in a window, and are given as they are."""
    window = {"pool_size": (2,), "strides": (2,), "padding": (0, 0), "dilation": (1,), "ceil_mode": False}
    module = alone("nn.max_pool1d", (1, 1, 4), **window)
    inputs = {"x": np.array([[[-1e-45, 0, 3, 5]]], F)}
    flushing, keeping = Oracle(module, accepts=Accepts(flushes=True)), Oracle(module)
    for first, declared, undeclared in ((0, "right", "right"), (-1e-45, "right", "wrong"), (-1, "wrong", "wrong")):
        given = {"y": np.array([[[first, 5]]], F)}
        assert (flushing.judge(inputs, given).outcome, keeping.judge(inputs, given).outcome) == (declared, undeclared)
    assert flushing.judge(inputs, {"y": np.array([[[0, 3]]], F)}).outcome == "wrong"


def test_a_subnormal_number_may_pass_a_leaky_relu() -> None:
    module, inputs = alone("nn.leakyrelu", (2,), alpha=0.01), {"x": np.array([-6e-45, -2], F)}
    oracle = Oracle(module, accepts=Accepts(flushes=True))
    for first, outcome in ((-6e-45, "right"), (0, "right"), (-1e-30, "wrong"), (1e-44, "wrong")):
        assert oracle.judge(inputs, {"y": np.array([first, -0.02], F)}).outcome == outcome

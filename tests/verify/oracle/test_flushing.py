"""Subnormal numbers that are taken for zeros: allowed where it is declared, said always, and hiding nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx.parser
import pytest

from assay.interp import graph
from assay.semantics.dtypes import DTYPES
from assay.semantics.graph import call, function, var
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


@pytest.mark.parametrize(
    ("operator", "operands", "attrs", "zeroed", "beyond"),
    [
        ("scatter_nd", (1e10, 2.9e-39), {"reduction": "mul"}, 0, 3e-29),
        ("scatter_nd", (3, 1, 2, 2.9e-39), {"reduction": "mul"}, 0, 2e-38),
        ("scatter_nd", (1, 1e-20, 1e-20, 1e20), {"reduction": "mul"}, 0, -1e-20),
        ("scatter_nd", (3e-39, 1.17e-38), {"reduction": "add"}, 0, 1e-37),
        ("scatter_nd", (1.2e-38, -1.3e-38, 1.2e-38), {"reduction": "add"}, 1.2e-38, 1e-37),
        ("prod", (1e-20, 1e-20, 1e20), {"axis": (0,), "keepdims": True}, 0, -1e-20),
        ("cumprod", (1e-20, 1e-20, 1e20), {"axis": 0}, 0, -1e-20),
        ("cumsum", (1.2e-38, -1.3e-38, 1.2e-38), {"axis": 0}, 1.2e-38, 1e-37),
    ],
)
def test_what_is_added_up_or_multiplied_on_the_way_may_be_zero_too(
    operator: str, operands: Sequence[float], attrs: dict[str, Any], zeroed: float, beyond: float
) -> None:
    """Kept by a campaign: ScatterND that multiplies by a subnormal number, by OpenCV; it was taken for a movement."""
    given = np.array(operands, F)
    inputs = {"x": given}
    if operator == "scatter_nd":
        inputs = {"x": given[:1], "i": np.zeros((len(given) - 1, 1), np.int64), "u": given[1:]}
    of = [var(name, TensorType(a.shape, DTYPES[a.dtype.name])) for name, a in inputs.items()]
    module = Module({"main": replace(function(of, call(operator, *of, **attrs)), attrs={"outputs": ("y",)})})
    right = np.asarray(graph.run(module, inputs)["y"])
    flushing, keeping = Oracle(module, accepts=Accepts(flushes=True)), Oracle(module)
    for last, outcomes in ((right[-1], ("right",)), (zeroed, ("right", "undecided")), (beyond, ("wrong",))):
        y = np.append(right[:-1], F(last))
        assert flushing.judge(inputs, {"y": y}).outcome in outcomes
        assert keeping.judge(inputs, {"y": y}).outcome == ("right" if last == right[-1] else "wrong")

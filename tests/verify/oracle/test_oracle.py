"""Verdicts: each outcome, each layer, and what they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from assay.semantics.builder import Builder, tensor
from assay.semantics.errors import Invalid, Trap
from assay.semantics.graph import Call
from assay.semantics.module import Module
from assay.semantics.walk import post_order
from assay.verify.oracle import Oracle, Verdict
from assay.verify.oracle.scaled_integers import ScaledIntegers, run_scaled_integers, step_of
from tests.verify.oracle.numeric_operators import one

F = np.float32


def judged(module: Module, got: Any, **inputs: Any) -> Verdict:
    return Oracle(module).judge(inputs, {"output_0": got})


def test_worst_element_with_its_interval() -> None:
    x = np.linspace(1, 2, 6, dtype=F).reshape(2, 3)
    got = np.exp(x)
    got[0, 1] *= F(1 + 1e-5)
    got[1, 2] *= F(1 + 1e-4)
    verdict = judged(one(lambda b, x: b.exp(x), x=tensor(2, 3)), got, x=x)
    assert (verdict.outcome, verdict.layer) == ("wrong", "elementwise")
    assert verdict.worst is not None
    assert verdict.worst.index == (1, 2) and verdict.worst.least < np.exp(2) < verdict.worst.most < verdict.worst.got
    spacing = float(np.spacing(F(np.exp(2))))
    assert verdict.worst.excess == pytest.approx((verdict.worst.got - verdict.worst.most) / spacing, rel=0.01)


def straddling(b: Builder, x: Any) -> Any:
    """A sum that cancels: whether it is above 0 hangs on roundings."""
    return b.sum(x, axis=(1,))


CANCELS = np.array([[1e8, 1.0, -1e8], [3.0, 1.0, 1.0]], F)


@pytest.mark.parametrize("choice", [True, False])
def test_an_open_comparison_is_undecided(choice: bool) -> None:
    module = one(lambda b, x: b.greater(straddling(b, x), 0.5), x=tensor(2, 3))
    assert judged(module, np.array([choice, True]), x=CANCELS).outcome == "undecided"
    assert judged(module, np.array([choice, False]), x=CANCELS).outcome == "wrong", "the other one is decided"


def test_open_steps_casts_and_choices_are_undecided_not_wrong() -> None:
    floor = one(lambda b, x: b.floor(straddling(b, x)), x=tensor(2, 3))
    cast = one(lambda b, x: b.astype(straddling(b, x), dtype="int32"), x=tensor(2, 3))
    choose = one(
        lambda b, x, y: b.where(b.greater(straddling(b, x), 0.5), y, b.negative(y)), x=tensor(2, 3), y=tensor(2)
    )
    y = np.array([7, 7], F)
    for first in (0, 1, 2):
        assert judged(floor, np.array([first, 5], F), x=CANCELS).outcome == "undecided"
        assert judged(cast, np.array([first, 5], np.int32), x=CANCELS).outcome == "undecided"
    assert judged(cast, np.array([0, 6], np.int32), x=CANCELS).outcome == "wrong"
    for first in (7, -7):
        assert judged(choose, np.array([first, 7], F), x=CANCELS, y=y).outcome == "undecided"
    assert judged(choose, np.array([7, -7], F), x=CANCELS, y=y).outcome == "wrong"
    sure = np.array([[1, 2, 3], [3, 1, 1]], F)
    assert judged(choose, y, x=sure, y=y).outcome == "right"


def test_an_open_branch_is_undecided_and_says_so() -> None:
    b = Builder()
    with b.function("main", x=tensor(3)) as f:
        with b.if_(b.greater(b.sum(f.x), 0.5)) as branch:
            with branch.then():
                b.result(b.negative(f.x))
            with branch.otherwise():
                b.result(f.x)
        b.result(branch.value)
    verdict = judged(b.module(), -CANCELS[0], x=CANCELS[0])
    assert verdict.outcome == "undecided" and "bounds do not decide" in verdict.detail


def test_order_of_nearly_equal_elements_is_undecided() -> None:
    """Which is the largest of sums that may be equal."""
    module = one(lambda b, x: b.topk(b.sum(x, axis=(1,)), k=1), x=tensor(2, 3))
    x = np.array([[1e8, 1.0, -1e8], [-1e8, 1.0, 1e8]], F)
    verdict = Oracle(module).judge({"x": x}, {"output_0": np.array([1], F), "output_1": np.array([0], np.int64)})
    assert verdict.outcome == "undecided"


def test_failing_runs() -> None:
    module = one(lambda b, x, y: b.truncate_divide(x, y), x=tensor(2, of="int32"), y=tensor(2, of="int32"))
    fine = {"x": np.array([4, 5], np.int32), "y": np.array([2, 3], np.int32)}
    fails = {**fine, "y": np.array([2, 0], np.int32)}
    oracle = Oracle(module)
    trap = Trap("division by zero", "by 0")
    assert oracle.judge(fails, trap).outcome == "right"
    assert oracle.judge(fails, Trap("shift", "by 99")).outcome == "wrong"
    assert oracle.judge(fine, trap).outcome == "wrong"
    waived = oracle.judge(fails, {"output_0": np.array([2, 0], np.int32)})
    assert waived.outcome == "unpredictable" and "division by zero" in waived.detail


def test_what_is_exact() -> None:
    """NaN payloads are free, the sign of zero only where operators have one."""
    zeros = np.array([0.0, -0.0, np.nan], F)
    nan = np.array([0x7FC12345], np.uint32).view(F)[0]
    copy = one(lambda b, x: b.reshape(x, shape=(3, 1)), x=tensor(3))
    assert judged(copy, np.array([[0.0], [-0.0], [nan]], F), x=zeros).outcome == "right"
    assert judged(copy, np.array([[0.0], [0.0], [nan]], F), x=zeros).outcome == "wrong"
    relu = one(lambda b, x: b.nn.relu(x), x=tensor(3))
    assert judged(relu, zeros, x=zeros).outcome == "right"
    verdict = judged(relu, np.array([0, 0], F), x=zeros)
    assert verdict.outcome == "wrong" and "Tensor((2,), float32) instead of" in verdict.detail
    verdict = Oracle(relu).judge({"x": zeros}, {})
    assert verdict.outcome == "wrong" and "missing" in verdict.detail


def test_the_first_wrong_operator_is_named() -> None:
    """The sum after it is right on what it was given, and a wrong last result is not blamed for it."""
    b = Builder()
    with b.function("main", x=tensor(4, 5)) as f:
        b.result(b.sum(b.tanh(b.exp(f.x)), axis=(1,)))
    module = b.module()
    tensors = {n.op.name: n for n in post_order(module.main) if isinstance(n, Call)}  # type: ignore[union-attr]
    oracle = Oracle(module, tensors)
    x = np.linspace(-2, 0.5, 20, dtype=F).reshape(4, 5)
    e = np.exp(x)
    t = np.tanh(e)
    assert oracle.judge({"x": x}, {"output_0": t.sum(1)}, {"exp": e, "tanh": t, "sum": t.sum(1)}).outcome == "right"
    t[2, 2] += F(1e-3)
    verdict = oracle.judge({"x": x}, {"output_0": t.sum(1)}, {"exp": e, "tanh": t, "sum": t.sum(1)})
    assert verdict.outcome == "wrong" and verdict.culprit is not None and "tanh" in verdict.culprit
    assert verdict.worst is not None and verdict.worst.index == (2, 2) and verdict.judged == 3


def test_whole_numbers_stay_exact_as_far_as_they_can() -> None:
    """Through products, maxima and means over powers of two; not through a division by 3, which the layer says."""
    even = one(lambda b, x, w: b.mean(b.nn.relu(b.matmul(x, w)), axis=(1,)), x=tensor(5, 7), w=tensor(7, 8))
    odd = one(lambda b, x, w: b.mean(b.nn.relu(b.matmul(x, w)), axis=(1,)), x=tensor(5, 7), w=tensor(7, 3))
    for module, lost in ((even, ""), (odd, "a division by 3")):
        found = run_scaled_integers(module, Oracle(module).inputs("integers"))
        assert not isinstance(found, str)
        (result,) = found.values()
        assert isinstance(result, ScaledIntegers) and result.lost.startswith(lost) and bool(result.lost) == bool(lost)


def test_integers_are_so_small_that_sums_are_exact() -> None:
    """In bfloat16 a sum of 64 products must stay below 256."""
    module = one(lambda b, x, w: b.matmul(x, w), x=tensor(5, 64, of="bfloat16"), w=tensor(64, 7, of="bfloat16"))
    inputs = Oracle(module).inputs("integers")
    (result,) = run_scaled_integers(module, inputs).values()  # type: ignore[union-attr]
    assert isinstance(result, ScaledIntegers) and not result.lost
    assert result.magnitude.max() <= 256 and all(np.abs(x.astype(F)).max() >= 1 for x in inputs.values())
    large = {n: x * x.dtype.type(8) + x.dtype.type(1) for n, x in inputs.items()}
    (result,) = run_scaled_integers(module, large).values()  # type: ignore[union-attr]
    assert isinstance(result, ScaledIntegers) and "too large" in result.lost


def test_steps() -> None:
    assert step_of(np.array([6.0, 4.0, 0.0])) == 2.0
    assert step_of(np.array([0.75, 3.0])) == 0.25
    assert step_of(np.array([1.0, 1 + 2.0**-40])) == 2.0**-40


def test_inputs_of_symbolic_shapes_and_of_unknown_kinds() -> None:
    b = Builder()
    with b.function("main", x=tensor("n", "m")) as f:
        b.result(b.negative(f.x))
    oracle = Oracle(b.module())
    assert oracle.inputs("random")["x"].shape == (5, 7), "primes, so that axes cannot be mixed up"
    assert oracle.inputs("random", dims={"m": 4})["x"].shape == (5, 4)
    assert np.isnan(oracle.inputs("specials", dims={"n": 50})["x"]).any()
    with pytest.raises(Invalid, match="oracle.C1"):
        oracle.inputs("odd")  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="check.C1"):
        oracle.inputs("random", dims={"k": 4})


def test_a_variance_of_which_nothing_is_left_is_undecided() -> None:
    """Such is the mean of squares minus the squared mean, which implementations may take, of numbers far from zero."""
    module = one(lambda b, x, g, h: b.nn.layer_norm(x, g, h, axes=(1,)), x=tensor(2, 40), g=tensor(40), h=tensor(40))
    x = np.random.default_rng(0).standard_normal((2, 40)).astype(F)
    g, h = np.ones(40, F), np.zeros(40, F)

    def outcome(x: Any, off: float) -> str:
        wide = x.astype(np.float64)
        y = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
        return judged(module, (y + off).astype(F), x=x, g=g, h=h).outcome

    assert outcome(x, 0.0) == "right" and outcome(x, 1e-2) == "wrong"
    assert outcome(x + F(1e6), 0.0) == outcome(x + F(1e6), 1e-2) == "undecided"


def test_the_mean_of_nothing_may_be_anything() -> None:
    module = one(lambda b, x: b.mean(x, axis=(1,)), x=tensor(2, 0))
    for y in (np.nan, 0.0):
        assert judged(module, np.full(2, y, F), x=np.zeros((2, 0), F)).outcome == "open"

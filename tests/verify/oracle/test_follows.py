"""Errors that hang together, followed through whole programs: right and nasty runs stay inside, and deep models get
bounds that exclude something."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx.parser
import pytest

from assay.interp import graph
from assay.lower.frontends.onnx.operators import vector_machines
from assay.semantics.bounding import affine, affine_sums
from assay.semantics.bounds import Bounded, contains
from assay.semantics.builder import tensor
from assay.semantics.dtypes import FLOAT32
from assay.semantics.errors import Unpredictable
from assay.semantics.graph import Call
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.ops import operator
from assay.semantics.walk import post_order
from assay.verify.backends import subject_of_model
from assay.verify.judge.spread import Rounding
from assay.verify.oracle import Accepts, Expected, Oracle, expected, follows, oracle_of
from assay.verify.oracle.adversarial import Attempt
from assay.verify.oracle.follows import Follows
from assay.verify.oracle.left_open import Silence
from assay.verify.oracle.walk import BoundedRun, OpenWalk
from tests.verify.oracle import numeric_operators as operators
from tests.zoo import models


def _layers(b: Any, x: Any, *weights: Any) -> Any:
    """A residual chain with what deep models have: a normalisation, an activation, a gate, a softmax."""
    for i, w in enumerate(weights):
        y = b.matmul(x, w)
        match i % 4:
            case 0:
                y = b.nn.relu(y)
            case 1:
                y = b.multiply(y, b.sigmoid(y))
            case 2:
                y = b.nn.softmax(y)
            case _:
                y = b.tanh(b.subtract(y, b.mean(y, axis=(-1,), keepdims=True)))
        x = b.add(x, y)
    return x


def _chain(depth: int, width: int = 8) -> Module:
    return operators.one(_layers, x=tensor(3, width), **{f"w{i}": tensor(width, width) for i in range(depth)})


def _right_runs(module: Module, inputs: Any, seeds: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [Attempt(module, np.random.default_rng(s), False).run(inputs) for s in range(seeds)]
    return [*found, *(Rounding(module, 0, i, {}).run(inputs) for i in range(1, seeds + 1))]


def _outside(module: Module, inputs: Any, seeds: int) -> tuple[int, int]:
    """How many runs that are right leave the bounds, and how many elements of them say something."""
    allowed = BoundedRun(module, follows=Follows()).run(inputs)
    wide = BoundedRun(module).run(inputs)
    says, left = 0, 0
    for name, bounds in allowed.items():
        assert isinstance(bounds, affine.Followed)
        plain = wide[name]
        assert isinstance(plain, Bounded)
        both = follows.narrowed(plain, bounds)
        assert isinstance(both, Bounded) and (both.radius <= plain.radius).all()
        says += int((~bounds.vacuous).sum())
        left += sum(not contains(bounds, run[name]).all() for run in _right_runs(module, inputs, seeds))
    return left, says


def test_right_runs_of_chains_stay_inside() -> None:
    for depth in (3, 6):
        module = _chain(depth)
        for seed in range(3):
            inputs = Oracle(module).inputs("random", seed)
            inputs = {n: (a / (4 if n != "x" else 1)).astype(a.dtype) for n, a in inputs.items()}
            left, says = _outside(module, inputs, 6)
            assert left == 0 and says > 0


def _residuals(b: Any, x: Any, w: Any, g: Any) -> Any:
    """Residual sums, each behind a normalization that reads the one before."""
    for _ in range(6):
        x = b.add(x, b.matmul(b.nn.layer_norm(x, g, axes=(-1,)), w))
    return x


def test_what_a_residual_is_off_is_one_value_from_the_next_sum_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each normalization that comes after counts the roundings of all sums before it anew."""
    module = operators.one(_residuals, x=tensor(3, 32), w=tensor(32, 32), g=tensor(32))
    inputs = Oracle(module).inputs("random", 0)

    def radius() -> float:
        ((name, found),) = BoundedRun(module, follows=Follows()).run(inputs).items()
        assert isinstance(found, Bounded)
        assert all(contains(found, run[name]).all() for run in _right_runs(module, inputs, 4))
        return float(np.median(found.radius))

    close = radius()
    monkeypatch.setattr(follows, "is_joined", lambda op, args: False)
    assert close < 0.7 * radius()


def _symbols_of_two_readers(maker: str) -> list[set[int]]:
    """The symbols of a tensor that `maker` makes, as two sums read it."""
    module = operators.one(lambda b, x: b.add(b.tanh(x), x), x=tensor(1, 4))
    calls = {e.op.name: e for e in post_order(module.main) if isinstance(e, Call) and isinstance(e.op, Operator)}
    reader = replace(calls["add"], args=(calls[maker], calls["add"].args[1]))
    made, other = (Bounded(np.ones((1, 4)), np.full((1, 4), 1e-3), FLOAT32) for _ in range(2))
    follow = Follows()
    read = [follow.operands(reader, operator("add"), [made, other])[0] for _ in range(2)]
    return [set(x.shared.ids.tolist()) for x in read if isinstance(x, affine.Followed)]


def test_each_reader_of_a_sum_may_take_in_its_last_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules M9.8 and M9.13: what a sum rounds is not one value to two readers; what a tanh rounds is."""
    first, second = _symbols_of_two_readers("add")
    assert first and second and not first & second
    first, second = _symbols_of_two_readers("tanh")
    assert first and first == second
    monkeypatch.setattr(follows, "_makes_sums", lambda made: False)
    first, second = _symbols_of_two_readers("add")
    assert first & second, "a planted fault that this does not see"


def test_a_rounding_that_is_dropped_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: what an operator rounds is not counted where its errors are followed."""
    real = affine.finished

    def dropped(made: Bounded, symbols: Any, errors: Any, centre: Any, rest: Any, *more: Any) -> Bounded:
        return real(made, symbols, errors, centre, rest * 1e-3, *more)

    for module in (affine, affine_sums):
        monkeypatch.setattr(module, "finished", dropped)
    module_ = _chain(3)
    inputs = Oracle(module_).inputs("random", 0)
    assert _outside(module_, inputs, 6)[0] > 0


@pytest.mark.parametrize("name", ["resnet18", "squeezenet"])
def test_a_deep_model_has_bounds_that_exclude_something(name: str) -> None:
    model = models.model(name)
    subject = subject_of_model(model)
    inputs = models.inputs(model, 5)
    allowed = Expected(subject.module, inputs, follows=True)
    assert isinstance(allowed.possible, dict) and not allowed.unfollowed
    before = BoundedRun(subject.module).run(inputs)
    for output, bounds in allowed.possible.items():
        plain = before[output]
        assert isinstance(bounds, Bounded) and isinstance(plain, Bounded)
        assert plain.vacuous.all() and not bounds.vacuous.any()
        assert np.median(bounds.radius) < 0.05 * np.abs(bounds.value).max()
    for run in _right_runs(subject.module, inputs, 2):
        assert all(contains(b, run[n]).all() for n, b in allowed.possible.items() if isinstance(b, Bounded))
    oracle = Oracle(subject.module)
    right = graph.run(subject.module, inputs)
    assert oracle.judge(allowed, right).outcome == "right"
    wrong = {n: np.asarray(v) + np.float32(0.1) for n, v in right.items()}
    assert oracle.judge(allowed, wrong).outcome == "wrong"


@pytest.mark.parametrize(("name", "value"), [("BUDGET", 1e6), ("LOST", 1)])
def test_what_is_not_followed_is_said(name: str, value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follows, name, value)
    model = models.model("resnet18" if name == "BUDGET" else "densenet")
    subject = subject_of_model(model)
    allowed = Expected(subject.module, models.inputs(model), follows=True)
    verdict = Oracle(subject.module).judge(allowed, graph.run(subject.module, allowed.inputs))
    assert verdict.outcome == "undecided" and allowed.unfollowed in verdict.detail
    assert "not followed to the end" in verdict.detail and allowed.unfollowed


def test_what_a_backend_may_do_beside_is_allowed_for() -> None:
    """A backend that flushes gets wider bounds, and they hold what it gives."""
    module = _chain(4)
    inputs = {n: (a * np.float32(1e-19)).astype(a.dtype) for n, a in Oracle(module).inputs("random", 1).items()}
    allowed = BoundedRun(module, accepts=Accepts(flushes=True), flushing=True, follows=Follows()).run(inputs)
    for seed in range(4):
        run = Attempt(module, np.random.default_rng(seed), True).run(inputs)
        assert all(contains(b, run[n]).all() for n, b in allowed.items() if isinstance(b, Bounded))


def test_a_run_of_what_is_left_open_keeps_no_tensor_that_nobody_reads() -> None:
    """Else a narrow BERT takes 24 GB: each tensor has its errors with it."""
    module = _chain(8)
    silence = Silence()
    outputs = OpenWalk(module, follows=Follows(), silence=silence).run(Oracle(module).inputs("random"))
    (y,) = outputs.values()
    assert silence.calls > 20 and silence.of(y) is not None
    assert len(silence.results) == 1


def _norm_of_sums(scale: float) -> tuple[Oracle, dict[str, Any], dict[str, Any]]:
    """The root of a sum of squares behind a contraction, inputs of that scale, and what float64 gives."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 13]> m (float[2, 8] x, float[8, 8] w) => (float[2] y) {
            a = MatMul(x, w)
            b = MatMul(a, w)
            y = ReduceL2<axes = [1], keepdims = 0>(b)
        }"""
    )
    oracle = oracle_of(subject_of_model(model))
    inputs = oracle.inputs("random")
    inputs["x"] = (inputs["x"] * np.float32(scale)).astype(np.float32)
    x, w = (inputs[n].astype(np.float64) for n in "xw")
    return oracle, inputs, {"y": np.sqrt(((x @ w @ w) ** 2).sum(axis=1)).astype(np.float32)}


@pytest.mark.parametrize("scale", [1.0, 1e25])
def test_errors_are_followed_once_where_other_rights_change_nothing(
    scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The squares of what is about 1e25 overflow in float32, and need not: there the run by that right is another."""
    runs: list[Follows] = []

    def begun() -> Follows:
        runs.append(Follows())
        return runs[-1]

    monkeypatch.setattr(expected, "Follows", begun)
    monkeypatch.setattr(expected, "_says_little", lambda value: True)
    oracle, inputs, outputs = _norm_of_sums(scale)
    allowed = Expected(oracle.module, inputs, follows=True)
    wrong = {"y": outputs["y"] * np.float32(1.001)}
    assert oracle.judge(allowed, wrong).outcome == ("wrong" if scale == 1 else "undecided")
    assert len(runs) == (1 if scale == 1 else 3)
    assert allowed.numbers == sum(f.symbols.work for f in runs) > 0
    assert oracle.judge(Expected(oracle.module, inputs, follows=True), outputs).outcome != "wrong"


def _machine() -> onnx.ModelProto:
    """Probabilities of three classes by a support vector machine: rounds that end where each row is close enough."""
    draw = np.random.default_rng(5)
    node = onnx.helper.make_node(
        "SVMClassifier", ["x"], ["label", "y"], domain="ai.onnx.ml", kernel_type="RBF", kernel_params=[0.5, 0.0, 3.0],
        support_vectors=draw.standard_normal(15).tolist(), coefficients=draw.standard_normal(10).tolist(),
        rho=[0.1, -0.2, 0.3], vectors_per_class=[2, 1, 2], classlabels_ints=[4, 2, 9], prob_a=[-4.0, -3.0, -5.0],
        prob_b=[0.1, 0.2, -0.1],
    )  # fmt: skip
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (4, 3))
    made = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.UNDEFINED, None) for n in node.output]
    sets = [onnx.helper.make_opsetid("ai.onnx.ml", 3), onnx.helper.make_opsetid("", 17)]
    return onnx.helper.make_model(onnx.helper.make_graph([node], "g", [x], made), opset_imports=sets)


def test_a_loop_whose_end_intervals_leave_open_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = subject_of_model(_machine())
    inputs = {"x": np.random.default_rng(2).standard_normal((4, 3)).astype(np.float32)}
    alone = Expected(subject.module, inputs).possible
    assert isinstance(alone, Unpredictable) and alone.label == "bounds.C1"
    found = Expected(subject.module, inputs, follows=True)
    assert isinstance(found.possible, dict) and found.is_followed
    allowed = found.possible["y"]
    assert isinstance(allowed, Bounded) and allowed.radius.max() < 1e-3
    for i in range(3):
        for run in (Attempt(subject.module, np.random.default_rng(i), False), Rounding(subject.module, 0, i + 1, {})):
            made = run.run(inputs)
            assert all(contains(b, made[n]).all() for n, b in found.possible.items() if isinstance(b, Bounded))
    oracle, right = oracle_of(subject), graph.run(subject.module, inputs)
    assert oracle.judge(found, right).outcome == "right"
    assert oracle.judge(found, {**right, "label": right["label"][::-1].copy()}).outcome == "wrong"
    monkeypatch.setattr(vector_machines, "MOST_ROUNDS", 1)  # a backend that has one round too few
    early = graph.run(subject_of_model(_machine()).module, inputs)
    assert oracle.judge(found, early).outcome == "wrong"

"""What the oracle once called wrong and is right, as small as it gets (found by
`tests/verify/oracle/test_oracle_campaign.py`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx.parser
import pytest

from assay.semantics.bounds import Bounded
from assay.semantics.dtypes import FLOAT32
from assay.semantics.graph import Expr, GlobalVar, Var, call, constant, function, var
from assay.semantics.module import Module
from assay.semantics.types import TensorType
from assay.verify.backends import Subject, backend, subject_of_model, subject_of_module
from assay.verify.oracle import Oracle, judge_backend
from assay.verify.oracle.trial import oracle_of
from tests.exported.loops import MODELS
from tests.models import single

F32 = np.float32
X = var("x", TensorType((2,), FLOAT32))


def whole(params: list[Var], body: Expr) -> Module:
    return Module({"main": replace(function(params, body), attrs={"outputs": ("y",)})})


def outcome(body: Expr, given: Any, got: Any) -> str:
    """The verdict on the one output `got` of one input."""
    return Oracle(whole([X], body)).judge({"x": given}, {"y": np.asarray(got)}).outcome


UNKNOWN = call("divide", call("subtract", X, X), call("subtract", call("exp", X), call("exp", X)))
"""Anything at all, as far as intervals can tell."""


@pytest.mark.parametrize("name", ["sin", "cos", "tan", "atan", "asin", "acos", "atanh", "cosh", "sinh"])
def test_a_function_of_anything_is_anything(name: str) -> None:
    ones = np.ones(2, F32)
    assert outcome(call(name, UNKNOWN), ones, np.full(2, np.nan, F32)) == "undecided"
    assert outcome(call(name, UNKNOWN), ones, np.zeros(2, F32)) == "undecided"


@pytest.mark.parametrize("name", ["asin", "acos", "atanh"])
def test_between_ends_where_it_is_not_defined_a_function_may_be(name: str) -> None:
    far = call("multiply", call("subtract", call("exp", X), call("exp", X)), constant(F32(1e8)))  # -95 to 95, about
    assert outcome(call(name, far), np.ones(2, F32), np.zeros(2, F32)) == "undecided"


def test_the_bits_of_a_nan_are_free() -> None:
    bits = call("reinterpret", call("subtract", X, X), dtype="int32")
    for got in (0x7FC00000, 0xFFC00000):
        given = np.full(2, got, np.uint32).view(np.int32)
        assert outcome(bits, np.full(2, np.inf, F32), given) == "undecided"
    assert outcome(call("reinterpret", X, dtype="int32"), np.ones(2, F32), np.ones(2, np.int32)) == "wrong"


def test_what_overflows_on_the_way_need_not() -> None:
    """The square of 1e30 is infinite in float32 and not in float64."""
    for name, extra in (("nn.lrn", {"size": 1}), ("nn.layer_norm", {"axes": (-1,)})):
        x = var("x", TensorType((1, 2), FLOAT32))
        scale = [constant(np.ones(2, F32))] * 2 if name == "nn.layer_norm" else []
        module = whole([x], call(name, x, *scale, **extra))
        inputs = {"x": np.array([[1e30, -1e30]], F32)}
        for who in ("numpy", "numpy:wide"):
            assert judge_backend(subject_of_module(module), backend(who), inputs).outcome == "undecided"


def test_an_interval_does_not_depend_on_its_neighbours() -> None:
    alone = Bounded(np.array([0.0]), np.array([0.0]), FLOAT32) + F32(1)
    beside = Bounded(np.array([0.0, -1.0]), np.array([0.0, 1e-8]), FLOAT32) + F32(1)
    assert (alone.value[0], alone.radius[0]) == (beside.value[0], beside.radius[0])


def test_a_constant_as_the_result() -> None:
    data = np.ones(2, F32)
    of = TensorType((2,), FLOAT32)
    module = replace(whole([], GlobalVar(of, "w")), constants={"w": data})
    for who in ("numpy", "adversarial"):
        assert judge_backend(subject_of_module(module), backend(who), {}).outcome == "right"


@pytest.mark.parametrize(("got", "said"), [(0.0, "undecided"), (-0.0, "undecided"), (1.0, "wrong")])
def test_a_zero_chosen_by_what_is_not_decided_may_have_either_sign(got: float, said: str) -> None:
    """The sign of 1 / (0 / -inf) is not decided by intervals, so neither is which zero it chooses; of a zero that is
    chosen for certain the sign counts."""
    a, b = (var(n, TensorType((2,), FLOAT32)) for n in "ab")
    zero, one = constant(np.zeros(2, F32)), constant(np.ones(2, F32))
    negative = call("less", call("divide", one, call("divide", a, b)), zero)
    module = whole([a, b], call("where", negative, constant(np.array([-0.0, -0.0], F32)), zero))
    inputs = {"a": np.array([0, 1], F32), "b": np.array([-np.inf, 2], F32)}
    found = Oracle(module).judge(inputs, {"y": np.array([got, 0], F32)})
    assert found.outcome == said
    assert Oracle(module).judge(inputs, {"y": np.array([got, -0.0], F32)}).outcome == "wrong"


def test_a_bias_leans() -> None:
    """Adding one number to many leaves the same remainder in all that have one exponent: no sign of a fault."""
    rng = np.random.default_rng(0)
    x, w = var("x", TensorType((2, 1, 40, 40), FLOAT32)), constant(np.ones((1, 1, 1, 1), F32))
    body = call("nn.conv2d", x, w, constant(np.array([0.7398896], F32)))
    module = whole([x], body)
    inputs = {"x": (rng.choice([-1, 1], (2, 1, 40, 40)) * rng.uniform(4, 8, (2, 1, 40, 40))).astype(F32)}
    assert judge_backend(subject_of_module(module), backend("numpy"), inputs).outcome == "right"


HUGE = np.array([[3e38, -2e38, 1e38, 2.5e38]], F32)
EACH = np.array([1, 2, 3, 4], F32)
PLACE = np.zeros((2, 1), np.int64)


@pytest.mark.parametrize(
    ("op", "given", "attrs", "right", "faulty"),
    [
        ("LpPool", [HUGE.reshape(1, 1, 4)], {"kernel_shape": [2]}, lambda x: np.hypot(x[..., 1:], x[..., :-1]), 0.5),
        ("LpNormalization", [HUGE], {}, lambda x: x / np.linalg.norm(x), 0.5),
        ("RMSNormalization", [HUGE, EACH], {}, lambda x, s: x / np.sqrt(np.mean(x * x)) * s, 0.5),
        ("Softsign", [HUGE], {}, lambda x: x / (1 + np.abs(x)), 0.5),
        ("ScatterND", [HUGE[0] / F32(3), PLACE, np.array([3e38, -3e38], F32)], {"reduction": "add"}, lambda x, i, u: x,
            0.5),
    ],
)  # fmt: skip
def test_what_overflows_within_an_operator_of_onnx_need_not(
    op: str, given: list[Any], attrs: dict[str, Any], right: Any, faulty: float
) -> None:
    """A float64 implementation that rounds once is not wrong; at ordinary numbers a fault is."""
    subject = subject_of_model(single(op, 23, given, attrs))
    names = [p.name for p in subject.module.main.params]
    for scale, by, wanted in (
        (1, 1, {"right", "undecided"}),
        (2.0**-100, 1, {"right"}),
        (2.0**-100, faulty, {"wrong"}),
    ):
        inputs = {n: v * F32(scale) if v.dtype == F32 else v for n, v in zip(names, given, strict=True)}
        with np.errstate(all="ignore"):
            y = (right(*(v.astype(np.float64) if v.dtype == F32 else v for v in inputs.values())) * by).astype(F32)
        verdict = oracle_of(subject).judge(inputs, {subject.outputs[0]: y})
        assert verdict.outcome in wanted, (scale, by, str(verdict))


@pytest.mark.parametrize(
    ("steps", "form", "said"),
    [
        (0, (0, 2, 4), "right"),
        (0, (0, 0, 4), "right"),
        (0, (0, 0, 0), "right"),
        (0, (1, 2, 4), "wrong"),
        (0, (0, 4), "wrong"),
        (1, (1, 2, 4), "right"),
        (1, (0, 2, 4), "wrong"),
        (1, (1, 0, 4), "wrong"),
    ],
)
def test_of_what_sizes_the_elements_are_that_a_loop_has_none_of(steps: int, form: tuple[int, ...], said: str) -> None:
    subject = subject_of_model(MODELS["counting"](), {"rows": 2})
    x = np.zeros((2, 4), F32)
    got = {"y": x, "all": np.zeros(form, F32)}
    assert oracle_of(subject).judge({"x": x, "steps": np.array(steps)}, got).outcome == said
    got["all"] = got["all"].astype(np.float64)
    assert oracle_of(subject).judge({"x": x, "steps": np.array(steps)}, got).outcome == "wrong"


@pytest.mark.parametrize(("declared", "expected"), [("2", "right"), ("n", "wrong"), ("", "wrong")])
def test_sizes_that_a_model_declares_hold_on_other_inputs_too(declared: str, expected: str) -> None:
    """TopK of a k that is given: one that takes the first k for granted is wrong, but not where the model declares that
    there are two, and on no other inputs there are."""
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[4] x, int64[1] k) => (int64[{declared}] y) {{'
        " v, y = TopK(x, k) }"
    )
    if not declared:
        model.graph.output[0].type.tensor_type.ClearField("shape")

    class Two:
        name = "two"

        def prepare(self, subject: Subject, wanted: object) -> Any:
            return lambda inputs: {"y": np.argsort(-inputs["x"], kind="stable")[:2]}

    x = np.array([4, 3, 2, 1], np.float32)
    verdict = judge_backend(subject_of_model(model), Two(), {"x": x, "k": np.array([2])})
    assert verdict.outcome == expected, str(verdict)


def test_what_a_backend_may_flush_is_not_what_is_wrong() -> None:
    """One that declares to flush subnormal numbers, and whose Neg is wrong: Mul, which gives 0 for one, is not
    named."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[1] x, float[1] h) => (float[1] y, float[1] z) {'
        " y = Mul(x, h) z = Neg(x) }"
    )

    class Flushes:
        name, accepts = "flushes", ("flushes",)

        def prepare(self, subject: Subject, wanted: object) -> Any:
            return lambda inputs: {"y": 0 * inputs["x"], "z": inputs["x"]}

    x, h = np.array([2e-38], np.float32), np.array([0.25], np.float32)
    verdict = judge_backend(subject_of_model(model), Flushes(), {"x": x, "h": h}, others=False)
    assert verdict.outcome == "wrong" and (verdict.culprit or "").startswith("Neg"), str(verdict)


@pytest.mark.parametrize(
    ("operator", "given", "expected"),
    [
        ("ReduceMax", np.inf, "open"), ("ReduceMax", -np.inf, "open"), ("ReduceMax", 2, "open"),
        ("ReduceMax", 3, "wrong"),
        ("ReduceMin", -np.inf, "open"), ("ReduceMin", np.inf, "open"), ("ReduceMin", -3, "wrong"),
        ("MaxPool", np.inf, "open"), ("MaxPool", 3, "wrong"),
    ],
)  # fmt: skip
def test_a_maximum_over_nan_and_both_infinities_is_one_of_them(operator: str, given: float, expected: str) -> None:
    """That the greatest number is infinite, and the least one too, is not that there are none."""
    node = {"MaxPool": "MaxPool<kernel_shape = [4]>"}.get(operator, f"{operator}<axes = [2]>")
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 13]> g (float[1,1,4] x) => (float[1,1,1] y) {{ y = {node}(x) }}'
    )

    class One:
        name = "one"

        def prepare(self, subject: Subject, wanted: object) -> Any:
            return lambda inputs: {"y": np.full((1, 1, 1), given, np.float32)}

    x = np.array([[[2, np.nan, np.inf, -np.inf]]], np.float32)
    verdict = judge_backend(subject_of_model(model), One(), {"x": x}, others=False)
    assert verdict.outcome == expected, str(verdict)


def _normed(by: str, x: Any, scale: Any, b: Any, mean: Any, var: Any) -> Any:
    deviation = np.sqrt(var + np.float32(0.5))
    match by:
        case "the printed formula":
            return (x - mean) / deviation * scale + b
        case "folded":
            by_one = scale / deviation
            return x * by_one + (b - mean * by_one)
        case _:
            return scale * (x - mean) / deviation + b


@pytest.mark.parametrize("by", ["the printed formula", "folded", "the product first"])
@pytest.mark.parametrize(
    "numbers", [(3.4e38, 0.5, 1, 0, 0), (-1, -np.inf, -np.inf, -np.inf, 0), (-1, 2, 1, -np.inf, 0), (2, 3, 4, 5, 6)]
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_batch_norm_overflows_by_one_formula_and_not_by_another(by: str, numbers: tuple[float, ...]) -> None:
    """ONNX prints the quotient first; what is folded is x * s + t, and infinite weights may make that no number."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 15]> g (float[1,1] x, float[1] s, float[1] b, float[1] m, float[1] v)'
        " => (float[1,1] y) { y = BatchNormalization<epsilon = 0.5>(x, s, b, m, v) }"
    )
    x, *rest = (np.array([n], np.float32) for n in numbers)
    inputs = {"x": x.reshape(1, 1), **dict(zip("sbmv", rest, strict=True))}

    class By:
        name, off = "by", 0.0

        def prepare(self, subject: Subject, wanted: object) -> Any:
            return lambda given: {"y": _normed(by, *given.values()) + np.float32(self.off)}

    subject = subject_of_model(model)
    assert judge_backend(subject, By(), inputs, others=False).outcome in ("right", "undecided")
    wrong = By()
    wrong.off = 1.0
    if numbers[0] == 2:
        assert judge_backend(subject, wrong, inputs, others=False).outcome == "wrong"


@pytest.mark.parametrize(("off", "expected"), [(0, "open"), (1, "open"), (1000, "wrong"), (-1000, "wrong")])
@pytest.mark.parametrize(
    "body", ["y = Min(a, b)", "y = Clip(b, a, h)", "e = Expand(a, s) c = Concat<axis = 1>(e, b) y = ReduceMin(c)"]
)
def test_an_operand_that_stands_beside_nan_may_be_off_too(body: str, off: int, expected: str) -> None:
    """What an Exp gives is known to some ulps, so what comes out in place of NaN is."""
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g (float x, float[1,1] z) => (float[1,1] y)'
        f" <int64[2] s = {{1, 1}}, float h = {{1.5}}> {{ a = Exp(x) b = Acosh(z) {body} }}"
    )

    class One:
        name = "one"

        def prepare(self, subject: Subject, wanted: object) -> Any:
            a = np.exp(np.float32(0.3))
            return lambda inputs: {"y": np.full((1, 1), a + np.spacing(a) * off, np.float32)}

    inputs = {"x": np.array(0.3, np.float32), "z": np.full((1, 1), -2, np.float32)}
    verdict = judge_backend(subject_of_model(model), One(), inputs, others=False)
    assert verdict.outcome == expected, str(verdict)


def test_a_maximum_of_nothing_but_nan_scattered_is_nan() -> None:
    """There is no number that could come out."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 18]> g (float[1] x, float[1] u) => (float[1] y) <int64[1,1] i = {0}>'
        ' { y = ScatterND<reduction = "max">(x, i, u) }'
    )

    class Given:
        name, value = "given", 0.0

        def prepare(self, subject: Subject, wanted: object) -> Any:
            return lambda inputs: {"y": np.full(1, self.value, np.float32)}

    nothing, one = np.full(1, np.nan, np.float32), Given()
    for one.value, expected in ((np.nan, "right"), (1.0, "wrong")):
        verdict = judge_backend(subject_of_model(model), one, {"x": nothing, "u": nothing}, others=False)
        assert verdict.outcome == expected, str(verdict)

"""How far correct runs lie apart: what is implausible, and that no correct run is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from assay.semantics.text.module_text import parse
from assay.verify.backends import backend, subject_of_model
from assay.verify.backends.protocol import Backend, call_prepared
from assay.verify.judge.spread import FURTHEST, MULTIPLE, CorrectRuns, Distance, Spread, log10_tail, spread_of
from assay.verify.oracle.adversarial import Adversary
from tests.zoo import models

CORRECT = ("onnxruntime", "onnxruntime:none", "numpy:wide", "numpy:reversed")


def correct(names: Sequence[str], adversaries: int, first: int = 0) -> Iterator[Backend]:
    """Correct backends: those of these names, and adversaries, each of another seed."""
    yield from (backend(name) for name in names)
    yield from (Adversary(first + k, flush=False) for k in range(adversaries))


def distances(
    name: str, seed: int, adversaries: int, others: Sequence[str] = CORRECT
) -> Iterator[tuple[str, Distance]]:
    """How far the outputs of correct backends on a model of the zoo are from its correct runs."""
    model = models.model(name)
    subject = subject_of_model(model)
    inputs = models.inputs(model, seed)
    spread = spread_of(subject.module, inputs, seed=seed)
    assert not spread.stopped
    for who in correct(others, adversaries, 1000 * seed):
        outputs = call_prepared(who.name, who.prepare(subject, subject.outputs), inputs)
        for output, value in outputs.items():
            found = spread.distance(output, value)
            if found is not None:
                yield f"{who.name} {getattr(who, 'seed', '')}".strip(), found


@pytest.mark.parametrize("name", ["bert", "squeezenet", "quantized", "mixer"])
def test_no_correct_backend_is_implausible(name: str) -> None:
    found = list(distances(name, 0, 4))
    assert len(found) >= 8
    assert not [(who, str(d)) for who, d in found if d.implausible]


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("name", models.names())
def test_no_set_of_outputs_of_correct_backends_is_implausible(name: str, seed: int) -> None:
    """31 models, 8 sets of inputs, 39 to 41 correct runs of each: 10,152 sets of outputs; inputs and spread are shared.
    onnxruntime rounds the biases of quantized-channels to whole numbers, which is no freedom."""
    found = list(distances(name, seed, 37, CORRECT[2:] if name == "quantized-channels" else CORRECT))
    worst = max(found, key=lambda f: min(f[1].times / MULTIPLE, f[1].furthest / FURTHEST))
    print(f"{name} {seed}: {len(found)} outputs, at most {max(d.times for _, d in found):.3g} and", end=" ")
    print(f"{max(d.furthest for _, d in found):.3g} times; {worst[0]}")
    assert not worst[1].implausible, f"{worst[0]}: {worst[1]}"


def normal(runs: int, shape: tuple[int, ...], scale: float = 1e-3) -> Spread:
    """Correct runs whose errors are normal."""
    rng = np.random.default_rng(1)
    made = [(1 + scale * rng.standard_normal(shape)).astype(np.float32) for _ in range(runs)]
    return Spread({"y": made}, runs)


def test_an_element_far_beyond_the_spread_is_implausible_and_named() -> None:
    spread = normal(8, (10, 10))
    got = spread.outputs["y"][0].copy()
    near = spread.distance("y", got)
    assert near is not None and not near.implausible and near.times < 4
    got[3, 7] += np.float32(0.1)
    far = spread.distance("y", got)
    assert far is not None and far.implausible and far.index == (3, 7) and far.log10_odds < -6
    assert "element (3, 7)" in str(far)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_number_where_correct_runs_have_one_is_implausible(value: float) -> None:
    spread = normal(8, (5,))
    got = spread.outputs["y"][0].copy()
    got[2] = value
    found = spread.distance("y", got)
    assert found is not None and found.implausible and found.index == (2,)


def test_elements_that_jump_in_correct_runs_may_jump() -> None:
    """Of a rounded tensor few elements differ, by a whole step: a step elsewhere is nothing odd, ten steps are."""
    rng = np.random.default_rng(0)
    runs = [np.where(rng.random((100, 100)) < 1e-3, 1.25, 1.0).astype(np.float32) for _ in range(8)]
    spread = Spread({"y": runs}, 8)
    got = np.ones((100, 100), np.float32)
    got[50, 50] = 1.25
    near = spread.distance("y", got)
    assert near is not None and not near.implausible
    got[50, 50] = 3.5
    far = spread.distance("y", got)
    assert far is not None and far.implausible


def test_elements_that_are_no_numbers_in_correct_runs_say_nothing_of_others() -> None:
    runs = [np.array([np.inf, np.nan, 1 + k * 1e-7], np.float32) for k in range(8)]
    found = Spread({"y": runs}, 8).distance("y", np.array([3.0, np.inf, 1.0], np.float32))
    assert found is not None and found.index == (2,) and found.times < 4


def test_spreads_whose_squares_overflow_are_numbers() -> None:
    rng = np.random.default_rng(0)
    runs = [1e200 * (1 + 1e-3 * rng.standard_normal(9)) for _ in range(8)]
    found = Spread({"y": runs}, 8).distance("y", runs[0] * 2)
    assert found is not None and found.implausible and np.isfinite(found.times)


def test_whole_numbers_and_other_shapes_have_no_distance() -> None:
    spread = Spread({"y": [np.arange(3)] * 8, "z": [np.zeros(2, np.float32)] * 8}, 8)
    assert spread.distance("y", np.arange(3)) is None
    assert spread.distance("z", np.zeros(3, np.float32)) is None
    assert spread.distance("other", np.zeros(3, np.float32)) is None


@pytest.mark.parametrize(
    ("t", "degrees", "tail"),
    [(2.998, 7, 0.01), (5.408, 7, 0.0005), (4.303, 2, 0.025), (12.706, 1, 0.025), (1.895, 7, 0.05)],
)
def test_the_odds_are_a_bound_on_students_tail(t: float, degrees: int, tail: float) -> None:
    assert np.log10(tail) - 1e-3 <= log10_tail(t, degrees) <= np.log10(tail * 3)
    assert log10_tail(np.inf, degrees) == -np.inf and log10_tail(0.0, degrees) == 0.0


def spread_at(call: str, *shapes: tuple[int, ...], values: Sequence[float] = ()) -> Any:
    """How far correct runs of one call lie apart, by element, on operands of these shapes, or a vector of these."""
    rng = np.random.default_rng(0)
    given = [np.array(values, "f4")] if values else [rng.standard_normal(s).astype("f4") for s in shapes]
    names = "ab"[: len(given)]
    params = ", ".join(f'{n}: R.Tensor({x.shape}, dtype="float32")' for n, x in zip(names, given, strict=True))
    text = f"@I.ir_module\nclass M:\n    @R.function\n    def main({params}):\n        y = {call}\n        return y\n"
    (runs,) = spread_of(parse(text), dict(zip(names, given, strict=True))).outputs.values()
    return np.std(np.array(runs, np.float64), axis=0)


@pytest.mark.parametrize(
    ("call", "shapes"),
    [
        ("R.nn.conv2d(a, b, groups=2)", ((1, 4, 5, 5), (6, 2, 3, 3))),
        ("R.nn.conv2d(a, b, groups=4)", ((1, 4, 5, 5), (4, 1, 3, 3))),
        ("R.nn.conv2d(a, b)", ((1, 1, 5, 5), (3, 1, 3, 3))),
        ("R.nn.avg_pool2d(a, pool_size=(3, 3))", ((1, 2, 7, 7),)),
    ],
)
def test_sums_of_windows_are_in_another_order_in_each_run(call: str, shapes: Sequence[tuple[int, ...]]) -> None:
    """Of several groups, of one channel, of a pool: were the order one, elements that cancel would be implausible in
    whoever has another order. Not further apart than roundings of terms of size 1 can be."""
    found = spread_at(call, *shapes)
    assert np.median(found) > 1e-9 and found.max() < 1e-5


@pytest.mark.parametrize("call", ["R.nn.gelu_tanh(a)", 'R.power(a, R.const(0.3, "float32"))'])
def test_a_huge_element_does_not_make_the_others_exact(call: str) -> None:
    """What a result of an elementwise operator may be off is told of each alone, where it differs much: half of the
    last place of a hyperbolic tangent near -1, and the places that a power of 3e38 is off as exp(b * log(a))."""
    found = spread_at(call, values=[-2.5, -3.0, 0.7, 2.5, 3e38, 1e30])
    if "gelu" in call:
        assert 2e-8 < found[0] < 1e-6 and 2e-8 < found[1] < 1e-6 and found[2] < 1e-6
    else:
        assert 1e-6 < found[4] / 3e38**0.3 < 1e-5


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_sums_with_weights_that_are_no_numbers_are_in_another_order_too(groups: int) -> None:
    """An infinite weight makes its own channel infinite, and the others no more exact."""
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((1, 4, 7, 7)).astype("f4"), rng.standard_normal((4, 4 // groups, 3, 3)).astype("f4")
    w[3, 0, 1, 1] = np.inf
    types = ", ".join(f'{n}: R.Tensor({v.shape}, dtype="float32")' for n, v in (("a", x), ("b", w)))
    call = f"R.nn.conv2d(a, b, groups={groups}, strides=(2, 2), padding=(1, 0, 0, 1), dilation=(2, 1))"
    module = parse(f"@I.ir_module\nclass M:\n    @R.function\n    def main({types}):\n        return {call}\n")
    (runs,) = spread_of(module, {"a": x, "b": w}).outputs.values()
    found = np.std(np.array(runs, np.float64)[:, :, :3], axis=0)
    assert np.median(found) > 1e-9 and found.max() < 1e-5
    assert all(np.isinf(r[:, 3]).all() for r in runs)


def test_what_overflows_in_another_order_is_no_number_there() -> None:
    """3e38 + 1e38 - 2e38 overflows, in this order. Where nothing comes near the end, an infinity stays implausible."""
    main = 'def main(a: R.Tensor((3,), dtype="float32")):\n        return R.sum(a)\n'
    module = parse(f"@I.ir_module\nclass M:\n    @R.function\n    {main}")
    for values, near in (([3e38, -2e38, 1e38], True), ([3, -2, 1], False), ([np.inf, 1, 2], False)):
        correct = CorrectRuns(module, {"a": np.array(values, np.float32)})
        assert correct.may_overflow is near
    spread, got = normal(8, (5,)), normal(8, (5,)).outputs["y"][0].copy()
    got[2] = np.inf
    assert not spread.distance("y", got, of_numbers=True).implausible  # type: ignore[union-attr]
    got[1] += 1
    assert spread.distance("y", got, of_numbers=True).index == (1,)  # type: ignore[union-attr]


def test_doubles_that_are_all_zero_have_a_distance() -> None:
    """Half a unit in the last place of 0 is no float64."""
    runs = [np.zeros(2)] * 8
    same, far = (Spread({"y": runs}, 8).distance("y", np.array([0.0, x])) for x in (0.0, 1e-300))
    assert same is not None and far is not None
    assert same.times == 0 and far.times > 1e9


@pytest.mark.parametrize(
    ("values", "call", "why"),
    [
        ([1e17, 3.0], "R.subtract(a, R.multiply(R.floor(R.divide(a, b)), b))", "floor of numbers whose neighbours"),
        ([2.0**24, 3.0], "R.round(a)", "round of numbers whose neighbours"),
        ([2.0**23 - 0.5, 3.0], "R.round(a)", ""),
        ([1e6, 3.0], "R.subtract(a, R.multiply(R.floor(R.divide(a, b)), b))", ""),
        ([np.inf, np.nan], "R.floor(a)", ""),
        ([1e-30, 1e-30, 1e30, 1e30], "R.prod(a)", "a product vanishes or overflows midway"),
        ([1e-10, 1e-10, 1e10, 1e10], "R.prod(a)", ""),
    ],
)
def test_runs_are_no_measure_where_roundings_decide_everything(values: Sequence[float], call: str, why: str) -> None:
    """A remainder of what has no fraction is anything below the divisor, in whoever takes another quotient."""
    given, three = np.array(values, "f4"), 'R.const(3.0, "float32")'
    text = f'main(a: R.Tensor(({len(values)},), dtype="float32")):\n        return {call.replace("b)", f"{three})")}'
    module = parse(f"@I.ir_module\nclass M:\n    @R.function\n    def {text}\n")
    assert why in spread_of(module, {"a": given}).stopped and bool(spread_of(module, {"a": given}).stopped) is bool(why)

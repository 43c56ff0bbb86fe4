"""A pass of one's own on a program so deep that its bounds exclude nothing: what is far from correct runs is
implausible, and what rounds otherwise is not known."""

from __future__ import annotations

import numpy as np

from assay.lower.passes import function_pass
from assay.lower.rewriting import rewrite_matches
from assay.lower.rewriting.pattern import anything, constant as constants, op
from assay.semantics.graph import Constant, call, constant
from assay.semantics.text.module_text import parse
from assay.verify.app.check import CheckRun, Line, Lowering
from assay.verify.exits import Exit

LAYERS = 30
X, W, D = anything(), constants(), constants()


def _source() -> str:
    rng = np.random.default_rng(0)
    text = "x"
    for _ in range(LAYERS):
        weights = rng.normal(0, 1, (8, 8)).round(2).tolist()
        text = f'R.divide(R.matmul({text}, R.const({weights}, "float32")), R.const(3.0, "float32"))'
    return (
        '@I.ir_module\nclass Module:\n    @R.function\n    def main(x: R.Tensor((2, 8), "float32")):\n'
        f"        return R.nn.softmax(R.nn.relu({text}))\n"
    )


without_relu = function_pass(lambda f: rewrite_matches(f, op("nn.relu")(X), lambda found, at: found[X]))


def _scaled(found, at):  # type: ignore[no-untyped-def]
    weights, by = found[W], found[D]
    assert isinstance(weights, Constant) and isinstance(by, Constant)
    return call("matmul", found[X], constant(weights.data / by.data))


scaled_weights = function_pass(lambda f: rewrite_matches(f, op("divide")(op("matmul")(X, W), D), _scaled))


def line(name: str) -> Line:
    own = f"own[run={__name__}:{name}]"
    return list(CheckRun(Lowering(parse(_source()), "model", passes=own), stop_after="own").lines())[-1]


def test_what_is_far_from_correct_runs_is_implausible() -> None:
    found = line("without_relu").evidence
    assert found is not None and found.outcome == "implausible" and found.exit is Exit.WRONG
    assert "times their spread" in found.detail


def algebra(name: str, text: str) -> Line:
    source = parse(
        '@I.ir_module\nclass Module:\n    @R.function\n    def main(x: R.Tensor((3,), "float32")):\n'
        f"        return {text}\n"
    )
    own = f"own[run={__name__}:{name}]"
    return list(CheckRun(Lowering(source, "model", passes=own), stop_after="own").lines())[-1]


nothing_left = function_pass(
    lambda f: rewrite_matches(f, op("subtract")(X, X), lambda found, at: constant(np.zeros(3, np.float32)))
)
without_zero = function_pass(lambda f: rewrite_matches(f, op("add")(X, W), lambda found, at: found[X]))
without_negations = function_pass(
    lambda f: rewrite_matches(f, op("negative")(op("negative")(X)), lambda found, at: found[X])
)


def test_a_rule_of_algebra_that_is_none_of_floats_shows_on_specials() -> None:
    found = algebra("nothing_left", "R.subtract(x, x)").evidence
    assert found is not None and found.outcome == "wrong" and found.exit is Exit.WRONG
    assert "with specials" in found.detail and "is 0.0, allowed is nan" in found.detail


def test_what_keeps_specials_holds_and_a_sign_that_is_free_is_said() -> None:
    found = algebra("without_negations", "R.exp(R.negative(R.negative(x)))").evidence
    assert found is not None and found.holds and found.detail.endswith("on 4 sets with specials among them too")
    found = algebra("without_zero", 'R.add(x, R.const([0.0, 0.0, 0.0], "float32"))').evidence
    assert found is not None and found.holds
    assert found.detail.endswith("but for the signs of zeros, which are free there")


def test_what_rounds_otherwise_is_not_called_wrong() -> None:
    found = line("scaled_weights").evidence
    assert found is not None and found.outcome == "undecided" and found.exit is Exit.UNDECIDED

"""What a declared freedom (tf32, splits, bf16-sums) is no excuse for: other operators, other dtypes, and sums in which
nothing is rounded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx.parser
import pytest

from assay.verify.backends import subject_of_model
from assay.verify.oracle import Verdict, judge_backend

Array = np.ndarray[Any, Any]
F = np.float32
EACH = ("tf32", "splits", "bf16-sums")


class Gives:
    """A backend that gives one output, whatever it is given."""

    name = "gives"

    def __init__(self, y: Array, *accepts: str) -> None:
        self.y, self.accepts = y, accepts

    def prepare(self, subject: Any, wanted: Any) -> Any:
        return lambda inputs: {"y": self.y}


def verdict_on(graph: str, inputs: Mapping[str, Array], y: Array, *accepts: str) -> Verdict:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> g {graph}')
    return judge_backend(subject_of_model(model), Gives(y, *accepts), inputs, others=False)


def outcome(*of: Any) -> str:
    return verdict_on(*of).outcome


PRODUCT = "({0}[2,2] x) => ({0}[2,2] y) {{ y = MatMul(x, x) }}"
SUMS = "(float[2000,16] x) => (float[2000,1] y) { a = Constant<value = int64[1] {1}>() y = ReduceSum(x, a) }"
BOTH = "(float[1,1] a, float[1,1] b) => (float[1,1] y) { y = MatMul(a, b) }"


@pytest.mark.parametrize("freedom", EACH)
def test_whole_numbers_in_float64_are_exact(freedom: str) -> None:
    """None of the freedoms is one of float64."""
    x = np.array([[1.0, 2], [3, 4]])
    assert outcome(PRODUCT.format("double"), {"x": x}, x @ x, freedom) == "right"
    assert outcome(PRODUCT.format("double"), {"x": x}, np.nextafter(x @ x, 99), freedom) == "wrong"


@pytest.mark.parametrize("freedom", ["", *EACH])
def test_a_sum_that_leans(freedom: str) -> None:
    """Shorter factors are no excuse for a sum without products; shorter sums are."""
    x = np.random.default_rng(0).standard_normal((2000, 16)).astype(F)
    exact, size = (np.sum(a.astype(float), axis=1, keepdims=True) for a in (x, np.abs(x)))
    given = (exact + 2e-7 * size).astype(F)
    found = outcome(SUMS, {"x": x}, given, *filter(None, [freedom]))
    assert found == ("right" if freedom == "bf16-sums" else "wrong")


@pytest.mark.parametrize("freedom", EACH)
def test_sums_of_zeros_and_of_nothing_are_zero(freedom: str) -> None:
    empty = "(float[2,0] a, float[0,2] b) => (float[2,2] y) { y = MatMul(a, b) }"
    nothing = {"a": np.zeros((2, 0), F), "b": np.zeros((0, 2), F)}
    for given, wanted in ((0.0, "right"), (1e-40, "wrong")):
        y = np.full((2, 2), given, F)
        assert outcome(PRODUCT.format("float"), {"x": np.zeros((2, 2), F)}, y, freedom) == wanted
        assert outcome(empty, nothing, y, freedom) == wanted


def test_a_product_that_overflows_where_factors_are_short() -> None:
    """What overflows by TF32 alone is not wrong where that is declared, and wrong where it is not."""
    a, b = (np.full((1, 1), v, F) for v in (1.5 * 2.0**127, 4 / 3 * (1 - 2.0**-13)))
    infinite = np.full((1, 1), np.inf, F)
    assert outcome(BOTH, {"a": a, "b": b}, infinite) == "wrong"
    assert outcome(BOTH, {"a": a, "b": b}, infinite, "tf32") == "undecided"

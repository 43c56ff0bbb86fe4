"""What is left open is judged element by element, and in the operators behind: an operand that is far off elsewhere is
no excuse."""

from __future__ import annotations

import numpy as np
import pytest

from assay.semantics.dtypes import DTYPES
from assay.semantics.graph import call, constant, function, var
from assay.semantics.module import Module
from assay.semantics.types import TensorType
from assay.verify.oracle import Oracle
from tests.verify.oracle.test_freedoms import F, outcome

TWO = "(float[4] x, float[4] h) => (float[4] y) { a = Exp(x) y = Max(a, h) }"
RELU = "(float[4] x, float[4] h) => (float[4] y) { a = Exp(x) b = Add(a, h) y = Relu(b) }"
ROWS = (
    "(float[4] x, float[4] h) => (float[2] y) { a = Exp(x) b = Add(a, h) k = Constant<value = int64[2] {2, 2}>()"
    " s = Reshape(b, k) i = Constant<value = int64[1] {1}>() y = ReduceMax<keepdims = 0>(s, i) }"
)
WINDOWS = ROWS.replace("float[2] y", "float[1,1,2] y").replace("int64[2] {2, 2}", "int64[3] {1, 1, 4}")
WINDOWS = WINDOWS.replace("ReduceMax<keepdims = 0>(s, i)", "MaxPool<kernel_shape = [2], strides = [2]>(s)")
SCATTERED = (
    "(float[4] x, float[4] h) => (float[4] y) { a = Exp(x) b = Add(a, h)"
    " i = Constant<value = int64[4,1] {0, 1, 2, 3}>()"
    ' y = ScatterND<reduction: string = "max">(b, i, h) }'
)
FAR = np.exp(F(88))
ONE = np.exp(F(1)) + 1


@pytest.mark.parametrize(
    ("graph", "before", "may"),
    [
        (TWO, [FAR, 1, np.exp(F(1))], [1.0]),
        (RELU, [FAR, 2, ONE], [0.0]),
        (ROWS, [FAR], [ONE]),
        (WINDOWS, [FAR], [ONE]),
        (SCATTERED, [FAR, 2, ONE], []),
    ],
    ids=["two", "relu", "rows", "windows", "scatter"],
)
def test_one_operand_that_is_far_off_excuses_nothing_elsewhere(
    graph: str, before: list[float], may: list[float]
) -> None:
    """exp(88) may be off by 1e32 or so, and stands beside another element than NaN does."""
    inputs = {"x": np.array([88, 0, 1, 0], F), "h": np.array([1, 1, 1, np.nan], F)}
    shape = (1, 1, 2) if graph is WINDOWS else (-1,)
    for given, wanted in [(np.nan, "right"), (5.0, "wrong"), (1e30, "wrong"), *((m, "open") for m in may)]:
        assert outcome(graph, inputs, np.array([*before, given], F).reshape(shape)) == wanted, given


def test_a_convolution_with_a_bias_of_whole_numbers_that_may_have_wrapped() -> None:
    """Kept by a campaign, which ended with an error of Assay's own."""
    x = var("x", TensorType((1, 1, 2), DTYPES["uint8"]))
    weights, bias = constant(np.ones((1, 1, 1), np.uint8)), constant(np.array([1], np.uint8))
    body = call("nn.conv1d", call("multiply", x, x), weights, bias, strides=(1,), padding=(0, 0), dilation=(1,))
    oracle = Oracle(Module({"main": function([x], body)}))
    inputs = {"x": np.array([[[15, 16]]], np.uint8)}
    (name,) = oracle.expected(inputs).possible
    for second, word in ((1, "right"), (255, "open"), (0, "open")):
        assert oracle.judge(inputs, {name: np.array([[[226, second]]], np.uint8)}).outcome == word, second
    assert oracle.judge(inputs, {name: np.array([[[225, 255]]], np.uint8)}).outcome == "wrong"

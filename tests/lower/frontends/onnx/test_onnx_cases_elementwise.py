"""Elementwise operators, casts, reductions, scans, quantization, losses and Einsum of ONNX: what its own cases leave
out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from assay.interp import graph
from assay.lower.frontends.onnx.model import import_onnx
from assay.semantics.errors import Invalid, Unsupported
from tests.models import single

F = np.float32


def run(op: str, *inputs: Any, opset: int = 21, outputs: int = 1, **attrs: Any) -> np.ndarray[Any, Any]:
    """The first output of one node; operands after the first are constants."""
    arrays = [np.asarray(i) for i in inputs]
    model = single(op, opset, arrays, attrs, constants=range(1, len(arrays)), outputs=outputs)
    module = import_onnx(model, evaluate=graph.evaluate)
    return next(iter(graph.run(module, {"x0": arrays[0]}).values()))


def test_a_nan_is_the_largest_and_the_smallest_place() -> None:
    x = np.array([[1, np.nan, 3, np.nan]], F)
    for op in ("ArgMax", "ArgMin"):
        assert run(op, x, axis=1, keepdims=0).tolist() == [1]
        assert run(op, x, axis=1, keepdims=0, select_last_index=1).tolist() == [3]


def test_log_sum_exp_does_not_overflow_before_its_result() -> None:
    x = np.array([[1000, 1000.5], [-np.inf, -np.inf], [np.inf, 0], [np.nan, 0]], F)
    got = run("ReduceLogSumExp", x, np.array([1]), keepdims=0)
    assert np.allclose(got, [1000.5 + np.log1p(np.exp(-0.5)), -np.inf, np.inf, np.nan], equal_nan=True)


def test_the_last_block_may_be_shorter() -> None:
    x = np.arange(10, dtype=np.int8).reshape(2, 5)
    scale = np.array([[1, 2, 4], [8, 16, 32]], F)
    want = x * np.repeat(scale, 2, axis=1)[:, :5]
    assert np.array_equal(run("DequantizeLinear", x, scale, axis=1, block_size=2), want)
    assert np.array_equal(run("QuantizeLinear", want, scale, np.zeros((2, 3), np.int8), axis=1, block_size=2), x)


@pytest.mark.parametrize(
    "equation", ["ij,jk->ik", "ij,jk", "bij,bkj->bki", "i,j,k->kij", "ii->i", "iji->j", "ij,ij->", "...ij,...jk->...ik"]
)
def test_einsum_is_numpys(equation: str) -> None:
    rng = np.random.default_rng(len(equation))
    sizes = {"b": 2, "i": 3, "j": 4, "k": 5}
    terms = equation.partition("->")[0].split(",")
    xs = [rng.integers(-4, 5, [sizes[c] for c in t.replace("...", "b")]).astype(F) for t in terms]
    assert np.array_equal(run("Einsum", *xs, equation=equation), np.einsum(equation, *xs))


@pytest.mark.parametrize(("mode", "want"), [("up", [1, 4, 4, 8]), ("down", [1, 2, 2, 4]), ("nearest", [1, 2, 4, 8])])
def test_a_scale_is_rounded_as_asked(mode: str, want: list[float]) -> None:
    got = run("Cast", np.array([1, 2.5, 3, 7], F), opset=24, to=TensorProto.FLOAT8E8M0, round_mode=mode)
    assert got.astype(F).tolist() == want


X = np.ones((2, 3), F)
WRONG: list[tuple[str, str, list[Any], dict[str, Any]]] = [
    ("direction", "BitShift", [np.uint8([1]), np.uint8([1])], {"direction": "UP"}),
    ("p is 3", "LpNormalization", [X], {"p": 3}),
    ("one number", "CumSum", [X, np.array([0, 1])], {}),
    ("two axes", "Trilu", [np.ones(3, F)], {}),
    ("reduction", "NegativeLogLikelihoodLoss", [X, np.array([0, 1])], {"reduction": "most"}),
    ("scores", "NegativeLogLikelihoodLoss", [X, np.array([0, 1, 2])], {}),
    ("one for each class", "NegativeLogLikelihoodLoss", [X, np.array([0, 1]), np.ones(2, F)], {}),
    ("1 terms", "Einsum", [X, X], {"equation": "ij"}),
    ("does not name", "Einsum", [X], {"equation": "ijk"}),
    ("the result names", "Einsum", [X], {"equation": "ij->k"}),
    ("not one size", "Einsum", [X], {"equation": "ii"}),
    ("each place of axis", "QuantizeLinear", [X, np.ones(2, F), np.zeros(2, np.int8)], {"axis": 1}),
    ("with blocks", "QuantizeLinear", [X, np.ones((2, 3), F), np.zeros((2, 3), np.int8)], {"axis": 1, "block_size": 2}),
    ("output_dtype", "QuantizeLinear", [X, F(1), np.int8(0)], {"output_dtype": TensorProto.UINT8}),
]


@pytest.mark.parametrize(("message", "op", "inputs", "attrs"), WRONG, ids=[f"{w[1]}-{w[0]}" for w in WRONG])
def test_what_does_not_fit_is_invalid(message: str, op: str, inputs: list[Any], attrs: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match=message) as caught:
        run(op, *inputs, opset=22, **attrs)
    assert caught.value.label == "onnx.C12" and not isinstance(caught.value, Unsupported)


def test_bits_of_another_width_are_invalid() -> None:
    with pytest.raises(Invalid, match="width"):
        run("BitCast", X, opset=26, to=TensorProto.INT64)
    with pytest.raises(Unsupported, match="bool"):
        run("BitCast", np.uint8([1]), opset=26, to=TensorProto.BOOL)

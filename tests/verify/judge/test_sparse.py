"""Sparse initializers and constants: dense in the definition, as they are for a backend."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import assay
from tests.inputs import read_npz
from tests.verify.app.test_cli import assay as run_command


def sparse(name: str, places: list[list[int]] | list[int]) -> onnx.SparseTensorProto:
    at = np.array(places, np.int64)
    values = numpy_helper.from_array(np.float32([1.5, -2.0, 4.0]), name)
    return helper.make_sparse_tensor(values, numpy_helper.from_array(at, f"{name}_places"), [3, 2])


def model() -> onnx.ModelProto:
    """x times a sparse weight, plus a sparse constant: places by numbers, and by axes."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Constant", [], ["c"], sparse_value=sparse("", [[0, 1], [1, 0], [2, 1]])),
        helper.make_node("Add", ["p", "c"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 2])], sparse_initializer=[sparse("w", [0, 3, 4])],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


X = np.arange(9, dtype=np.float32).reshape(3, 3)
W = np.float32([[1.5, 0], [0, -2], [4, 0]])
C = np.float32([[0, 1.5], [-2, 0], [0, 4]])


def test_what_is_sparse_is_dense_in_the_definition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    onnx.save(model(), tmp_path / "s.onnx")
    np.savez(tmp_path / "x.npz", x=X)
    out = tmp_path / "o.npz"
    assert run_command(monkeypatch, "run", tmp_path / "s.onnx", "--inputs", tmp_path / "x.npz", "-o", out) == 0
    np.testing.assert_array_equal(read_npz(out)["y"], X @ W + C)


@pytest.mark.parametrize("places,outcome", [([0, 3, 4], "right"), ([0, 3, 5], "wrong")])
def test_a_backend_gets_them_as_they_are(places: list[int], outcome: str) -> None:
    """And the planted fault: one that takes an element from another place."""

    class Dense:
        name = "dense"

        def prepare(self, subject, wanted):  # type: ignore[no-untyped-def]  # a user's backend
            (weight,) = subject.model.graph.sparse_initializer
            if list(wanted) != ["y"]:
                raise NotImplementedError
            w = np.zeros(6, np.float32)
            w[places] = numpy_helper.to_array(weight.values)
            return lambda inputs: {"y": inputs["x"] @ w.reshape(3, 2) + C}

    (verdict,) = assay.judge(model(), Dense(), {"x": X}, kinds="random").verdicts
    assert verdict.outcome == outcome

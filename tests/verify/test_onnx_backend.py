"""`assay.verify.onnx_backend` in ONNX's own test runner (specs/verify.md, "ONNX backend")."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.backend.base import Backend
from onnx.backend.test.runner import Runner

from assay.verify import onnx_backend
from tests.verify import onnx_suite


@pytest.mark.slow
def test_the_list_of_cases_that_do_not_pass_is_true() -> None:
    found = onnx_suite.run()
    assert len(found) >= 2000
    wrong = {n: r for n, r in found.items() if r}
    listed = onnx_suite.listed()
    assert sorted(wrong.keys() - listed.keys()) == [], "these do not pass and are not listed"
    assert sorted(listed.keys() - wrong.keys()) == [], "these are listed and pass: take them out"
    assert all(listed.values())


def test_a_wrong_result_is_not_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: results are a little off."""
    cases = dict(onnx_suite.cases())
    assert onnx_suite.outcome(cases["test_relu_cpu"]) == ""
    right = onnx_backend.AssayRep.run
    monkeypatch.setattr(onnx_backend.AssayRep, "run", lambda *a: tuple(x + x.dtype.type(0.01) for x in right(*a)))
    assert "AssertionError" in onnx_suite.outcome(cases["test_relu_cpu"])


def test_a_node_alone_and_inputs_with_initializers() -> None:
    assert issubclass(onnx_backend.AssayBackend, Backend)
    node = onnx.helper.make_node("Add", ["a", "b"], ["c"])
    a = np.array([1, 2], np.float32)
    (c,) = onnx_backend.run_node(node, [a, a])
    np.testing.assert_array_equal(c, a + a)
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x, float[2] w = {3, 4}) => (float[2] y) { y = Mul (w, x) }'
    (y,) = onnx_backend.run_model(onnx.parser.parse_model(text), [a])
    np.testing.assert_array_equal(y, a * np.array([3, 4], np.float32))


def test_an_empty_optional_value_is_none() -> None:
    of = onnx.helper.make_optional_type_proto(onnx.helper.make_tensor_type_proto(1, [2]))
    node = onnx.helper.make_node("Identity", ["x"], ["y"])
    infos = [onnx.helper.make_value_info(n, of) for n in "xy"]
    made = onnx.helper.make_model(onnx.helper.make_graph([node], "g", infos[:1], infos[1:]))
    rep = onnx_backend.prepare(made)
    assert rep.run([None]) == (None,)
    Runner.assert_similar_outputs([np.ones(2, np.float32)], rep.run([np.ones(2, np.float32)]), 0, 0)

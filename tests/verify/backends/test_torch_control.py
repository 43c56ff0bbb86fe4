"""Branches and loops as PyTorch has them: Python's where a program is called as it is, else `cond` and `while_loop`."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from assay.semantics.errors import Invalid
from assay.verify.backends import backend, subject_of_model
from assay.verify.backends.protocol import Array

pytestmark = pytest.mark.peer

PROGRAMS = {
    "a branch that uses a constant and a value from outside": (
        """(float[3] x, bool c) => (float[3] y) { w = Exp(x) y = If(c)<
          then_branch = a () => (float[3] t) { k = Constant<value_floats = [1.0, 2.0, 3.0]>() t = Add(w, k) },
          else_branch = b () => (float[3] e) { e = Sub(x, w) }> }"""
    ),
    "a branch that gives what it is given": (
        """(float[3] x, bool c) => (float[3] y, float[3] z) { y = If(c)<
          then_branch = a () => (float[3] t) { t = Identity(x) },
          else_branch = b () => (float[3] e) { e = Neg(x) }> z = Add(y, x) }"""
    ),
    "branches that lie in other orders": (
        """(float[5, 3] v, bool c) => (float[3, 5] y) { y = If(c)<
          then_branch = a () => (float[3, 5] t) { k = Constant<value_ints = [3, 5]>() t = Reshape(v, k) },
          else_branch = b () => (float[3, 5] e) { e = Transpose(v) }> }"""
    ),
    "branches of other sizes": (
        """(float[3] x, bool c) => (float[M] y) { y = If(c)<
          then_branch = a () => (float[3] t) { t = Identity(x) },
          else_branch = b () => (float[6] e) { e = Concat<axis = 0>(x, x) }> }"""
    ),
    "rounds until they are large, with a branch in each": (
        """(float[3] x, bool c) => (float[3] y) { m = Constant<value_float = 50.0>() a0 = Abs(x)
          y = Loop(, c, a0)<body = b (int64 i, bool ci, float[3] a) => (bool co, float[3] a3) {
            one = Constant<value_float = 1.0>() s = Cast<to = 1>(i) a1 = Add(a, s) odd = ReduceMax<keepdims = 0>(a1)
            up = Less(odd, one) a2 = If(up)<then_branch = p () => (float[3] t) { t = Add(a1, one) },
              else_branch = r () => (float[3] e) { u = Add(a1, x) e = Add(u, a0) }>
            a3 = Add(a2, one) l = ReduceMax<keepdims = 0>(a3) co = Less(l, m) }> }"""
    ),
    "a loop in a loop": (
        """(float[3] x, bool c) => (float[3] y) { n = Constant<value_int = 3>()
          y = Loop(n, c, x)<body = b (int64 i, bool ci, float[3] a) => (bool co, float[3] a2) {
            two = Constant<value_int = 2>()
            z = Loop(two, ci, a)<body = d (int64 j, bool cj, float[3] q) => (bool ck, float[3] q2) {
              s = Add(i, j) f = Cast<to = 1>(s) q2 = Add(q, f) ck = Identity(cj) }>
            a2 = Mul(z, x) co = Identity(ci) }> }"""
    ),
    "a scan": (
        """(float[5, 3] v, float[3] x, bool c) => (float[3] y, float[5, 3] s) { y, s = Scan<num_scan_inputs = 1,
          body = b (float[3] h, float[3] w) => (float[3] h2, float[3] o) {
            k = Constant<value_float = 0.5>() g = Mul(h, k) h2 = Add(g, w) o = Tanh(h2) }>(x, v) }"""
    ),
}
GROWING = """(float[3] x, bool c, int64 n) => (float[K, 3] s) {
  y, s = Loop(n, c, x)<body = b (int64 i, bool ci, float[3] a) => (bool co, float[3] a2, float[3] so) {
    a2 = Neg(a) so = Exp(a) h = Constant<value_float = 2.0>() f = ReduceSum<keepdims = 0>(so) co = Less(f, h) }> }"""
"""What the rounds give is stacked, and how many there are is an input: the state grows."""


def model(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> g {text}')


def given(of: onnx.ModelProto, taken: bool, sign: float) -> dict[str, Array]:
    rng = np.random.default_rng(3)
    inputs: dict[str, Array] = {"c": np.array(taken), "x": sign * rng.random(3, np.float32), "n": np.array(4)}
    inputs["v"] = rng.random((5, 3), np.float32)
    return {i.name: inputs[i.name] for i in of.graph.input}


def run_both(name: str, text: str) -> None:
    pytest.importorskip("torch", reason="the peer is not installed")
    made = model(text)
    subject = subject_of_model(made)
    run, right = (backend(n).prepare(subject, subject.outputs) for n in (name, "numpy"))
    for taken in (True, False):
        for sign in (1.0, -1.0):
            inputs = given(made, taken, sign)
            wanted = right(inputs)
            for n, found in run(inputs).items():
                np.testing.assert_allclose(found, wanted[n], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["torch:eager", "torch", "torch:aot_eager"])
@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_both_sides_and_each_round(name: str, text: str) -> None:
    run_both(name, text)


def test_a_state_that_grows_is_run_as_it_is_and_not_compiled() -> None:
    run_both("torch:eager", GROWING)
    with pytest.raises(Invalid, match="same metadata") as wrong:
        run_both("torch:aot_eager", GROWING)
    assert wrong.value.label == "backend.C2"


def test_branches_and_loops_stay_those() -> None:
    """What is compiled has them, and is no unrolled run on the first inputs."""
    torch = pytest.importorskip("torch", reason="the peer is not installed")
    from assay.verify.backends.torch_module import torch_module
    from assay.verify.backends.torch_table import TABLE

    for title, text in PROGRAMS.items():
        made = model(text)
        inputs = given(made, True, 1.0)
        subject = subject_of_model(made)
        args = tuple(torch.from_numpy(np.array(inputs[p.name])) for p in subject.module.main.params)
        if "other sizes" in title:
            continue
        exported: Any = torch.export.export(torch_module(torch, TABLE, subject.module, traced=True), args)
        assert ("cond" if "branch" in title.partition(",")[0] else "while_loop") in exported.graph_module.code

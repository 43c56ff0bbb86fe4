"""If, Loop, Scan, sequences and optional values of ONNX (specs/lower.md, "Import")."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import pytest

from assay.interp import graph
from assay.lower.frontends.onnx.model import import_onnx
from assay.semantics.errors import Invalid, Trap, Unsupported
from assay.verify.plugins import onnx_backend

F = np.float32


def model(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')


def run(text: str, *inputs: Any) -> tuple[Any, ...]:
    return onnx_backend.prepare(model(text)).run(inputs)


IF = """g (bool c, float[n] x) => (float[m] y) {
    two = Constant <value = float {2}> ()
    y = If (c) <then_branch = t () => (float[n] a) { a = Mul (x, two) },
                else_branch = e () => (float[k] b) { b = Concat <axis = 0> (x, x) }>
}"""


def test_if_takes_one_branch_and_its_size() -> None:
    x = np.array([1, 2, 3], F)
    np.testing.assert_array_equal(run(IF, np.bool_(True), x)[0], x * 2)
    np.testing.assert_array_equal(run(IF, np.bool_(False), x)[0], np.concatenate([x, x]))


LOOP = """g (int64 trips, float[n] x) => (float[m] y, float[k, l] all) {
    yes = Constant <value = bool {1}> ()
    y, all = Loop (trips, yes, x) <body = b (int64 i, bool go, float[p] v) => (bool more, float[q] w, float[r] out) {
        more = Identity (go)
        f = Cast <to = 1> (i)
        w = Add (v, f)
        out = Mul (w, x)
    }>
}"""


@pytest.mark.parametrize("trips", [0, 1, 5])
def test_loop_carries_variables_and_collects(trips: int) -> None:
    x = np.array([1, -2], F)
    y, every = run(LOOP, np.int64(trips), x)
    v, rows = x, []
    for i in range(trips):
        v = v + F(i)
        rows.append(v * x)
    np.testing.assert_array_equal(y, v)
    np.testing.assert_array_equal(every, np.array(rows, F).reshape(trips, 2))


GROWING = """g (int64 trips, float[n] x) => (float[m] y, float[k] sums) {
    yes = Constant <value = bool {1}> ()
    y, sums = Loop (trips, yes, x) <body = b (int64 i, bool go, float[p] v) => (bool more, float[q] w, float s) {
        s = ReduceSum <keepdims = 0> (v)
        limit = Constant <value = float {20}> ()
        more = Less (s, limit)
        w = Concat <axis = 0> (v, x)
    }>
}"""


def test_a_variable_may_change_its_size_and_the_condition_stops() -> None:
    y, sums = run(GROWING, np.int64(10), np.array([3, 4], F))
    np.testing.assert_array_equal(sums, np.array([7, 14, 21], F))
    np.testing.assert_array_equal(y, np.array([3, 4] * 4, F))


SCAN = """g (float[3] s, float[3, n] x) => (float[3] t, float[k, l] out) {
    t, out = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1], scan_output_axes = [-1],
                   body = b (float[3] s0, float[3] col) => (float[3] s1, float[3] o) {
        s1 = Add (s0, col)
        o = Identity (s1)
    }> (s, x)
}"""


def test_scan_along_an_axis_from_the_back() -> None:
    x = np.arange(12, dtype=F).reshape(3, 4)
    t, out = run(SCAN, np.zeros(3, F), x)
    np.testing.assert_array_equal(t, x.sum(1))
    np.testing.assert_array_equal(out, np.cumsum(x[:, ::-1], axis=1))


SEQUENCE = """g (seq(float[n]) xs, int64 at) => (float[m] one, float[k] whole, int64 len, seq(float[q]) left) {
    one = SequenceAt (xs, at)
    len = SequenceLength (xs)
    left = SequenceErase (xs, at)
    whole = ConcatFromSequence <axis = 0> (xs)
}"""


@pytest.mark.parametrize("at", [0, 2, -1])
def test_a_sequence_of_tensors_of_many_shapes(at: int) -> None:
    xs = [np.array([1], F), np.array([2, 3], F), np.zeros(0, F)]
    one, whole, length, left = run(SEQUENCE, xs, np.int64(at))
    np.testing.assert_array_equal(one, xs[at])
    np.testing.assert_array_equal(whole, np.concatenate(xs))
    assert int(length) == 3
    rest = list(xs)
    del rest[at]
    assert [x.tolist() for x in left] == [x.tolist() for x in rest]


@pytest.mark.parametrize("at", [3, -4])
def test_a_position_outside_traps(at: int) -> None:
    with pytest.raises(Trap) as found:
        run(SEQUENCE, [np.zeros(1, F)] * 3, np.int64(at))
    assert found.value.label == "match.T1"


def test_a_long_loop_needs_no_recursion() -> None:
    y, every = run(LOOP, np.int64(2000), np.ones(1, F))
    assert float(y[0]) == 1 + 2000 * 1999 / 2
    assert every.shape == (2000, 1)


def test_labels() -> None:
    with pytest.raises(Invalid, match="variable 0 of the loop is") as wrong:
        import_onnx(model(LOOP.replace("w = Add (v, f)", "w = Cast <to = 7> (v)")
                          .replace("out = Mul (w, x)", "out = Mul (v, x)")), evaluate=graph.evaluate)  # fmt: skip
    assert wrong.value.label == "onnx.C12"
    empty = "g (int64 i) => (float y) { xs = SequenceEmpty () y = SequenceAt (xs, i) }"
    with pytest.raises(Unsupported, match="rank of the element must be known") as found:
        import_onnx(model(empty), evaluate=graph.evaluate)
    assert found.value.label == "onnx.C14"


def test_inputs_have_the_form_of_their_type() -> None:
    for inputs in (np.zeros(3, F), np.int64(0)), ([np.zeros(3)], np.int64(0)):
        with pytest.raises(Invalid) as found:
            run(SEQUENCE, *inputs)
        assert found.value.label == "values.C1"
    with pytest.raises(Invalid) as found:
        run(IF, np.bool_(True), np.zeros(3, F), np.zeros(3, F))
    assert found.value.label == "onnx_backend.C2"
    with pytest.raises(Unsupported) as unsupported:
        onnx_backend.prepare(model(IF), "CUDA")
    assert unsupported.value.label == "onnx_backend.C3"


RANKS = """g (bool c, float[n] x) => (float[1, m] y) {
    one = Constant <value = int64[1] {0}> ()
    y = If (c) <then_branch = t () => (float[1, n] a) { a = Unsqueeze (x, one) },
                else_branch = e () => (float[n] b) { bad = Constant <value = float[2, 2] {1, 2, 3, 4}> ()
                                                     b = Reshape (bad, bad) }>
}"""


def test_a_branch_that_means_nothing_is_left_out_where_inputs_say_so() -> None:
    with pytest.raises(Invalid):
        import_onnx(model(RANKS), evaluate=graph.evaluate)
    x = np.ones(3, F)
    given = {"c": np.bool_(True), "x": x}
    made = import_onnx(model(RANKS), evaluate=graph.evaluate, values={k: np.asarray(v) for k, v in given.items()})
    np.testing.assert_array_equal(graph.run(made, given)["y"], x[None])
    with pytest.raises(Trap) as found:
        graph.run(made, {**given, "c": np.bool_(False)})
    assert found.value.label == "assert_op.T1"

"""Models with loops, choices and detection, as their exporters write them, built node by node: no exporter is needed.

`MODELS[NAME]()` is the model; `cases.CASES[NAME]` has its inputs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import ModelProto, numpy_helper, parser

HEAD = '<ir_version: 8, opset_import: ["" : 18]>\n'


def _parsed(text: str, **stored: np.ndarray) -> ModelProto:
    made: ModelProto = parser.parse_model(HEAD + text)
    made.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in stored.items())
    onnx.checker.check_model(made, full_check=False)
    return made


def _drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def counting() -> ModelProto:
    """Rows doubled again and again: the sizes stay, the number of iterations is an input."""
    return _parsed("""
    counting (float[rows, 4] x, int64 steps) => (float[rows, 4] y, float[n, rows, 4] all) {
        yes = Constant <value: tensor = bool {1}> ()
        y, all = Loop <body: graph = body (int64 i, bool go, float[rows, 4] v) =>
            (bool go_on, float[rows, 4] twice, float[rows, 4] each) {
                go_on = Identity (go)
                twice = Add (v, v)
                each = Identity (twice)
            }> (steps, yes, x)
    }""")


def growing() -> ModelProto:
    """While the sum is small, the last row again, doubled: one row more in each iteration, at most `steps` many."""
    return _parsed("""
    growing (float[rows, 4] x, int64 steps) => (float[more, 4] y) {
        yes = Constant <value: tensor = bool {1}> ()
        y = Loop <body: graph = body (int64 i, bool go, float[n, 4] v) => (bool go_on, float[m, 4] longer) {
                start = Constant <value_ints: ints = [-1]> ()
                end = Constant <value_ints: ints = [9223372036854775807]> ()
                zero = Constant <value_ints: ints = [0]> ()
                last = Slice (v, start, end, zero)
                twice = Add (last, last)
                longer = Concat <axis: int = 0> (v, twice)
                size = ReduceSum <keepdims: int = 0> (longer)
                most = Constant <value_float: float = 50.0> ()
                go_on = Less (size, most)
            }> (steps, yes, x)
    }""")


def scanning() -> ModelProto:
    """A running total along time, and what it was at each step."""
    return _parsed("""
    scanning (float[time, batch, 4] x, float[batch, 4] start) => (float[batch, 4] last, float[time, batch, 4] all) {
        last, all = Scan <num_scan_inputs: int = 1, body: graph = body (float[batch, 4] state, float[batch, 4] row) =>
            (float[batch, 4] next, float[batch, 4] out) {
                sum = Add (state, row)
                next = Tanh (sum)
                out = Identity (next)
            }> (start, x)
    }""")


def choosing() -> ModelProto:
    """Which branch is taken, and so how many rows there are, an element decides."""
    return _parsed("""
    choosing (float[rows, 4] x, bool go) => (float[n, 4] y) {
        y = If (go) <
            then_branch: graph = then () => (float[a, 4] t) { t = Concat <axis: int = 0> (x, x) },
            else_branch: graph = otherwise () => (float[b, 4] e) { e = Neg (x) }>
    }""")


def suppressing() -> ModelProto:
    """Boxes and scores of a head, the boxes that are kept, and their corners."""
    return _parsed("""
    suppressing (float[batch, boxes, 4] boxes, float[batch, classes, boxes] scores) =>
        (int64[kept, 3] chosen, float[kept, 4] corners) {
        most = Constant <value_ints: ints = [5]> ()
        iou = Constant <value_floats: floats = [0.5]> ()
        least = Constant <value_floats: floats = [0.1]> ()
        chosen = NonMaxSuppression (boxes, scores, most, iou, least)
        columns = Constant <value_ints: ints = [0, 2]> ()
        places = Gather <axis: int = 1> (chosen, columns)
        corners = GatherND (boxes, places)
    }""")


def best() -> ModelProto:
    """The best k scores, k being the least of 3 and how many there are."""
    return _parsed("""
    best (float[batch, n] scores) => (float[batch, k] values, int64[batch, k] places) {
        shape = Shape <start: int = 1> (scores)
        three = Constant <value_ints: ints = [3]> ()
        k = Min (shape, three)
        values, places = TopK (scores, k)
    }""")


def nonzero() -> ModelProto:
    """The elements above 0, as many as there are, scaled by their own sum."""
    return _parsed("""
    nonzero (float[n] x) => (float[kept] y) {
        zero = Constant <value_float: float = 0.0> ()
        positive = Greater (x, zero)
        kept = Compress <axis: int = 0> (x, positive)
        total = ReduceSum <keepdims: int = 1> (kept)
        y = Div (kept, total)
    }""")


MODELS: dict[str, Callable[[], ModelProto]] = {
    f.__name__: f for f in (counting, growing, scanning, choosing, suppressing, best, nonzero)
}

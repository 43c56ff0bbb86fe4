"""Externs whose result is a number in an expression: they are called before the statement that they stand in
(M6.13)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from assay.interp import tensor, vector
from assay.interp.values import Event
from assay.semantics.errors import Invalid, Trap, Unsupported
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.text.module_printer import show
from assay.semantics.text.module_text import parse

HEAD = """
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def main(x: T.Buffer((4,), "float32"), o: T.Buffer((4,), "float32")):
        T.func_attr({"num_outputs": 1})
        for j in range(4):
            o[j] = x[j]
"""
X = np.arange(4, dtype=np.float32)
EXTERNS: dict[str, Any] = {
    "ten": lambda v: v * 10,
    "count": lambda n: n + 2,
    "wrong": lambda: [1, 2],
    "real": lambda: 2.5,
}
CASES: dict[str, tuple[str, list[float], list[tuple[str, float]]]] = {
    "the whole value": ('for i in range(2):\n    o[i] = T.call_extern("float32", "ten", x[i + 1])', [10, 20, 2, 3],
        [("ten", 1), ("ten", 2)]),
    "left to right": ('o[0] = T.call_extern("float32", "ten", x[1]) + T.call_pure_extern("float32", "ten", x[2])',
        [30, 1, 2, 3], [("ten", 1), ("ten", 2)]),
    "one in another": ('o[0] = T.call_extern("float32", "ten", T.call_extern("float32", "ten", x[1]))', [100, 1, 2, 3],
        [("ten", 1), ("ten", 10)]),
    "a condition": ('if T.call_extern("int32", "count", 3) > 4:\n    o[0] = T.call_extern("float32", "ten", x[3])',
        [30, 1, 2, 3], [("count", 3), ("ten", 3)]),
    "a name": ('t: T.let[T.float32] = T.call_extern("float32", "ten", x[1]) + x[1]\no[0] = t\no[1] = t',
        [11, 11, 2, 3], [("ten", 1)]),
    "a scalar in memory": ('t = T.call_extern("float32", "ten", x[1])\no[0] = t\no[1] = t', [10, 10, 2, 3],
        [("ten", 1)]),
    "an index": ('o[T.call_extern("int32", "count", 1)] = x[0]', [0, 1, 2, 0], [("count", 1)]),
    "converted once": ('o[0] = T.call_extern("float32", "real")', [2.5, 1, 2, 3], []),
}  # fmt: skip


def module(body: str) -> Module:
    found = parse(HEAD + "".join(f"        {line}\n" for line in body.splitlines()), "externs.py")
    check(found)
    return found


@pytest.mark.parametrize("name", CASES)
def test_results_of_externs(name: str) -> None:
    body, want, events = CASES[name]
    m = module(body)
    text = show(m)
    again = parse(text, "again.py")
    assert show(again) == text
    for source in (m, again):
        for run in (tensor.run, vector.run):
            trace: list[Event] = []
            (got,) = run(source.kernels["main"], [X], externs=EXTERNS, trace=trace)
            assert got.tolist() == want
            seen = [(e.name, float(e.values[0])) for e in trace if e.values]
            assert seen == events


@pytest.mark.parametrize(
    ("body", "label"),
    [
        ('o[0] = T.if_then_else(x[0] > T.float32(0), T.call_extern("float32", "ten", x[0]), x[0])', "text.C7"),
        ('if x[0] > T.float32(0) and T.call_extern("int32", "count", 1) > 0:\n    o[0] = x[0]', "text.C7"),
        ('while T.call_extern("int32", "count", 1) > 0:\n    o[0] = x[0]', "text.C7"),
        ('for i in range(T.call_extern("int32", "count", 1)):\n    o[0] = x[0]', "text.C7"),
        ('o[0:4] = T.Broadcast(T.call_extern("float32", "ten", x[0]), 4)', "text.C8"),
    ],
)
def test_a_call_that_may_be_left_out_is_refused(body: str, label: str) -> None:
    with pytest.raises(Unsupported) as refused:
        module(body)
    assert refused.value.label == label


def test_what_is_no_number_traps() -> None:
    m = module('o[0] = T.call_extern("float32", "wrong")')
    with pytest.raises(Trap) as trap:
        tensor.run(m.kernels["main"], [X], externs=EXTERNS)
    assert trap.value.kind == "shape" and "wrong returns no float32" in trap.value.message
    m = module('o[T.call_extern("int32", "real")] = x[1]')
    (got,) = tensor.run(m.kernels["main"], [X], externs=EXTERNS)
    assert got.tolist() == [0, 1, 1, 3], "converted as a cast converts"


def test_the_dtype_of_a_result_must_be_that_of_its_place() -> None:
    with pytest.raises(Invalid) as wrong:
        module('o[0] = T.call_extern("int32", "count", 1)')
    assert wrong.value.label == "text.C6"
    with pytest.raises(Invalid) as missing:
        tensor.run(module(CASES["a name"][0]).kernels["main"], [X])
    assert missing.value.label == "extern.C1"

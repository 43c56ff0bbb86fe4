"""Places that a loop has counted to: proved to lie within, and faults of the counting that are not."""

from __future__ import annotations

import pytest

from assay.semantics.text.module_text import parse
from assay.verify.symbolic import prove_accesses

PROGRAM = """n = TypeVar("n")
m = TypeVar("m")
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def kept(x: T.Buffer((n, m), "float32"), y: T.Buffer((n * m,), "int64"), count: T.Buffer((1,), "int64")):
        for k in range(n * m):
            y[k] = T.int64(0)
        count[0] = T.int64(0)
        for i, j in T.grid(n, m):
            if x[i, j] > T.float32(0):
                y[count[0]] = i
                count[0] = count[0] + T.int64(1)
"""
FAULTS = {
    "it begins at 1": ("count[0] = T.int64(0)", "count[0] = T.int64(1)"),
    "it is below 0 at first": ("count[0] = T.int64(0)", "count[0] = T.int64(-1)"),
    "two at once": ("count[0] + T.int64(1)", "count[0] + T.int64(2)"),
    "it goes down": ("count[0] + T.int64(1)", "count[0] - T.int64(1)"),
    "it is read behind its step": (
        "                y[count[0]] = i\n                count[0] = count[0] + T.int64(1)",
        "                count[0] = count[0] + T.int64(1)\n                y[count[0]] = i",
    ),
    "a loop that is longer": ("T.grid(n, m)", "T.grid(n, m + 1)"),
    "a second step": (
        "count[0] = count[0] + T.int64(1)",
        "count[0] = count[0] + T.int64(1)\n                count[0] = count[0] + T.int64(1)",
    ),
    "a loop around that repeats": (
        "        for i, j in T.grid(n, m):",
        "        for r, i, j in T.grid(2, n, m):",
    ),
    "a loop whose length is read": ("for i, j in T.grid(n, m):", "for i, j in T.grid(n, m + count[0]):"),
    "a step by what is read": ("count[0] + T.int64(1)", "count[0] + i"),
    "it counts in 8 bits": ("int64\")):\n        for k", "int8\")):\n        for k"),
    "a first value that is chosen": (
        "        count[0] = T.int64(0)",
        "        if n > 3:\n            count[0] = T.int64(0)",
    ),
}  # fmt: skip


def verdict(text: str) -> str:
    return prove_accesses(parse(text).kernels["kept"]).verdict


def test_what_is_counted_lies_within() -> None:
    assert verdict(PROGRAM) == "proved"
    step = "T.Select(x[i, j] > T.float32(0), T.int64(1), T.int64(0))"
    whole = PROGRAM.replace("if x[i, j] > T.float32(0):", "if True:").replace("T.int64(1)", step)
    assert verdict(whole) == "proved"


@pytest.mark.parametrize("fault", FAULTS)
def test_counting_that_is_wrong_is_not_proved(fault: str) -> None:
    old, new = FAULTS[fault]
    assert old in PROGRAM
    text = PROGRAM.replace(old, new)
    if "8 bits" in fault:
        text = text.replace("count[0] = T.int64(0)", "count[0] = T.int8(0)")
        text = text.replace("count[0] + T.int64(1)", "count[0] + T.int8(1)")
        text = text.replace("y[count[0]]", 'y[T.Cast("int64", count[0])]')
    assert verdict(text) != "proved"

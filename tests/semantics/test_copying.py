"""What is a device_copy, by its text (rule M8)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from assay.lower.legalize.kernels import build
from assay.lower.loops import schedule
from assay.semantics.dtypes import BOOL, FLOAT32, INT32, INT64
from assay.semantics.errors import Invalid
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.scalar import Var, apply, cast, const
from assay.semantics.tensor import Alias, Allocate, Assert, Buffer, PrimFunc, Stmt, While, loops, seq, store, when
from assay.semantics.tensor.calls import from_element
from assay.semantics.tensor.copying import check_copy, is_device_copy, no_copy
from assay.semantics.text.module_text import parse
from assay.semantics.types import TensorType

pytestmark = pytest.mark.row("V3", "V12")

X, Y = Buffer("x", (3, 4), FLOAT32), Buffer("y", (3, 4), FLOAT32)
FLAT, WIDE, LESS = Buffer("y", (12,), FLOAT32), Buffer("y", (4, 3), FLOAT32), Buffer("y", (3, 3), FLOAT32)
COPY = {"operator": "device_copy"}
N = Var("n", INT64)
VIEW = from_element(X, const(0))


def func(body: Stmt, *params: Buffer, outputs: int = 1) -> PrimFunc:
    return PrimFunc("f", params or (X, Y), outputs, body, COPY)


def tiled() -> PrimFunc:
    """A ragged split of the inner loop."""
    copy = build("device_copy", {}, (TensorType((3, 5), FLOAT32),), TensorType((3, 5), FLOAT32), "f")
    _, inner = schedule(copy).loops
    return schedule(copy).split(inner, 2).func


BLOCK = """
from tvm.script import tir as T
@T.prim_func
def f(x: T.Buffer((3, 4), "float32"), y: T.Buffer((3, 4), "float32")):
    T.func_attr({"operator": "device_copy"})
    for i, j in T.grid(3, 4):
        with T.block("copy"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = x[vi, vj]
"""

PLAIN: dict[str, PrimFunc] = {
    "element by element": func(loops("i j", (3, 4), lambda i, j: store(Y, (i, j), X[i, j]))),
    "side by side": func(loops("i j", (3, 4), lambda i, j: store(Y, (i, j), X[i, j]), "parallel")),
    "to a flat one": func(loops("i j", (3, 4), lambda i, j: store(FLAT, i * 4 + j, X[i, j])), X, FLAT),
    "from the end": func(loops("i j", (3, 4), lambda i, j: store(Y, (const(2) - i, j), X[const(2) - i, j]))),
    "in two parts": func(seq(*(loops("j", (4,), lambda j, i=i: store(Y, (i, j), X[i, j])) for i in range(3)))),
    "guarded": func(loops("i j", (4, 4), lambda i, j: when(i < 3, store(Y, (i, j), X[i, j])))),
}


def plain_ones() -> dict[str, PrimFunc]:
    a, b = Buffer("x", (N,), FLOAT32), Buffer("y", (N,), FLOAT32)
    s, t = Buffer("x", (), BOOL), Buffer("y", (), BOOL)
    return {
        **PLAIN,
        "of any size": func(loops("i", (N,), lambda i: store(b, i, a[i])), a, b),
        "a scalar": func(store(t, (), s[()]), s, t),
        "in a block": parse(BLOCK, "f.py").kernels["f"],
    }


ONES = plain_ones()


@pytest.mark.parametrize("name", ONES)
def test_a_plain_copy(name: str) -> None:
    assert no_copy(ONES[name]) == ""
    assert is_device_copy(replace(ONES[name], attrs=COPY)) and not is_device_copy(replace(ONES[name], attrs={}))
    check_copy(ONES[name])


T = Buffer("t", (3, 4), FLOAT32)
J = Buffer("x", (12,), INT32)
V = Buffer("y", (12,), INT32)
ODD: dict[str, tuple[PrimFunc, str]] = {
    "adds": (func(loops("i j", (3, 4), lambda i, j: store(Y, (i, j), X[i, j] + 1.0))), "it stores"),
    "a number": (func(loops("i j", (3, 4), lambda i, j: store(Y, (i, j), 0.0))), "it stores"),
    "mirrored": (func(loops("i j", (3, 4), lambda i, j: store(Y, (i, j), X[i, const(3) - j]))), "it stores"),
    "transposed": (func(loops("i j", (3, 4), lambda i, j: store(WIDE, (j, i), X[i, j])), X, WIDE), "it stores"),
    "one element": (func(loops("i j", (3, 4), lambda i, j: store(Y, (i, j), X[0, 0]))), "it stores"),
    "fewer": (func(loops("i j", (3, 3), lambda i, j: store(LESS, (i, j), X[i, j])), X, LESS),
        "other numbers of elements"),
    "another dtype": (func(loops("i", (12,), lambda i: store(V, i, cast(X[0, 0], INT32))), X, V),
        "x is float32, y is int32"),
    "two inputs": (func(loops("i j", (3, 4), lambda i, j: store(Y, (i, j), X[i, j])), X, T, Y), "2 inputs"),
    "two outputs": (func(loops("i j", (3, 4), lambda i, j: store(Y, (i, j), X[i, j])), X, T, Y, outputs=2),
        "2 outputs"),
    "its own result": (func(loops("i j", (3, 4), lambda i, j: store(Y, (i, j), Y[i, j]))), "it stores"),
    "by what is there": (func(loops("i", (12,), lambda i: store(V, cast(J[i], INT64), J[cast(J[i], INT64)])), J, V),
        "depends on data"),
    "where it is positive": (
        func(loops("i j",
            (3, 4), lambda i, j: when(apply("gt", X[i, j], const(0.0, FLOAT32)), store(Y, (i, j), X[i, j])))),
        "depends on data",
    ),
    "by way of workspace": (
        func(Allocate(T,
            loops("i j", (3, 4), lambda i, j: seq(store(T, (i, j), X[i, j]), store(Y, (i, j), T[i, j]))))), "Allocate",
    ),
    "through a view": (func(Alias(VIEW, loops("i j", (3, 4), lambda i, j: store(Y, (i, j), VIEW.buffer[i * 4 + j])))),
        "it stores"),
    "until it is done": (func(While(X[0, 0] > 0.0, loops("i j", (3, 4), lambda i, j: store(Y, (i, j), X[i, j])))),
        "While"),
    "if it is positive": (
        func(seq(Assert(X[0, 0] > 0.0, "no"), loops("i j", (3, 4), lambda i, j: store(Y, (i, j), X[i, j])))),
        "depends on data"),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_what_is_none(name: str) -> None:
    odd, why = ODD[name]
    assert why in no_copy(odd) and not is_device_copy(odd)
    for refuse in (check_copy, lambda f: check(Module({"f": f}))):
        with pytest.raises(Invalid, match="says that it is a device_copy, but") as wrong:
            refuse(odd)
        assert wrong.value.label == "copy.C1"
    check_copy(replace(odd, attrs={}))


@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (2, 3, 4)])
def test_the_operators_kernel_is_one(shape: Any) -> None:
    of = TensorType(shape, FLOAT32)
    assert is_device_copy(replace(build("device_copy", {}, (of,), of, "f"), attrs=COPY))


def test_a_split_copy_is_one() -> None:
    assert no_copy(tiled()) == ""

"""What TVM's text says and what its live objects say is one: claims, vectors, laziness and intrinsics (rule M6)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="the peer apache-tvm is not installed")

import tvm
from tvm.script import from_source

from assay.interp import tensor, vector
from assay.lower.frontends.tvm import from_tvm
from assay.semantics.errors import Trap
from assay.semantics.scalar.intrinsics import INTRINSICS
from assay.semantics.tensor import PrimFunc
from assay.semantics.text.module_text import parse
from tests.museum.sanitizer_programs import FILL, HEAD, PROGRAMS

pytestmark = pytest.mark.peer

X = np.arange(8, dtype=np.float32)
INPUTS = [X, np.arange(16, dtype=np.float32).reshape(4, 4), np.arange(8, dtype=np.int32)]
SHARED = ("undeclared access", "carried dependence", "race", "division by zero", "shift", "cast", "unwritten read")
"""Kinds whose programs TVM itself reads, most of them."""


def source(text: str) -> Any:
    """The function as TVM reads it."""
    return from_source(text[text.index("@T.prim_func") :], check_well_formed=False)


def both(text: str) -> tuple[PrimFunc, PrimFunc]:
    """The function as our reader has it, and as TVM has it."""
    (read,) = parse(text, "f.py").kernels.values()
    (live,) = from_tvm(tvm.IRModule({"f": source(text)})).kernels.values()
    return read, live


@pytest.mark.parametrize("kind", SHARED)
def test_faults_are_found_in_live_modules_too(kind: str) -> None:
    seen = 0
    for body in PROGRAMS[kind]:
        if "likely" in body or "while" in body:  # the first is strict for our reader only; the second has no output
            continue
        text = HEAD + "".join(
            f"    {line}\n" for line in ((FILL if kind != "unwritten read" else "") + body).splitlines()
        )
        text = text.replace('    T.func_attr({"num_outputs": 1})\n', "")
        try:
            source(text)
        except Exception:  # noqa: BLE001 - TVM refuses some of the texts in its own words
            continue
        found = []
        for func in both(text):
            with pytest.raises(Trap) as caught:
                tensor.run(func, INPUTS)
            found.append(caught.value)
        assert found[0].kind == found[1].kind == kind and found[0].message == found[1].message
        seen += 1
    assert seen >= 5, seen


def compiled(text: str, *arrays: Any) -> list[Any]:
    built = tvm.compile(tvm.IRModule({"f": source(text)}), target="llvm")
    given = [tvm.runtime.tensor(a) for a in arrays]
    built["f"](*given)
    return [g.numpy() for g in given]


def test_a_select_is_lazy_in_text_too() -> None:
    text = (
        "from tvm.script import tirx as T\n\n@T.prim_func(s_tir=True)\ndef f(a: T.Buffer((4,), 'float32'), b:"
        " T.Buffer((6,), 'float32')):\n    for i in range(6):\n        b[i] = T.Select(T.And(i >= 1, i < 5), a[i - 1],"
        " T.float32(0))\n"
    )
    want = compiled(text, X[:4], np.zeros(6, np.float32))[1].tolist()
    for func in both(text):
        assert (
            tensor.run(func, [X[:4]])[0].tolist() == vector.run(func, [X[:4]])[0].tolist() == want == [0, 0, 1, 2, 3, 0]
        )


def test_intrinsics_are_those_that_tvm_compiles() -> None:
    names = {
        "float32": [
            "exp2",
            "exp10",
            "log2",
            "log10",
            "log1p",
            "sinh",
            "cosh",
            "floor",
            "ceil",
            "trunc",
            "round",
            "nearbyint",
            "fabs",
        ],
        "int32": ["popcount", "clz"],
    }
    rng = np.random.default_rng(0)
    for of, row in names.items():
        x = (
            np.abs(rng.standard_normal(64) * 4).astype(of)
            if of == "float32"
            else rng.integers(1, 2**31 - 1, 64).astype(of)
        )
        for name in row:
            text = (
                f"from tvm.script import tirx as T\n\n@T.prim_func(s_tir=True)\ndef f(a: T.Buffer((64,), '{of}'), b:"
                f" T.Buffer((64,), '{of}')):\n    for i in range(64):\n        b[i] = T.{name}(a[i])\n"
            )
            want = compiled(text, x, np.zeros(64, of))[1]
            for func in both(text):
                (got,) = vector.run(func, [x])
                assert np.allclose(got.astype(np.float64), want.astype(np.float64), rtol=1e-5), (
                    name,
                    got[:4],
                    want[:4],
                )
    assert {n for row in names.values() for n in row} <= set(INTRINSICS)


VECTORS = """from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def f(a: T.Buffer((16,), "float32"), b: T.Buffer((16,), "float32")):
    for i in range(4):
        v: T.let[T.float32x4] = a[T.Ramp(i * 4, 1, 4)]
        b[T.Ramp(i * 4 + 3, -1, 4)] = v * v + T.Broadcast(a[i], 4)
"""


def test_vectors_with_names() -> None:
    x = np.arange(16, dtype=np.float32)
    want = compiled(VECTORS, x, np.zeros(16, np.float32))[1]
    for func in both(VECTORS):
        assert tensor.run(func, [x])[0].tolist() == vector.run(func, [x])[0].tolist() == want.tolist()

"""Kernels in tiles: the bits of the plain ones, in the module and in C, and the operators' by the check of legalize."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from assay.interp import vector
from assay.lower.c import emit
from assay.lower.legalize import legalize
from assay.lower.legalize.kernels import build
from assay.semantics.builder import Builder, tensor
from assay.semantics.dtypes import FLOAT32
from assay.semantics.graph import Call, call, var
from assay.semantics.tensor import Allocate, PrimFunc, program_order
from assay.semantics.types import TensorType
from assay.verify.c.compiled import compile_c
from assay.verify.c.tools import STRICT
from assay.verify.equivalence import BIT_EXACT, equivalent
from assay.verify.equivalence.meanings import Field, Fingerprint
from assay.verify.equivalence.word_semantics import over_words
from assay.verify.legalize import check_legalize
from tests.lower.loops.strategies import tiled
from tests.lower.memory.planned import alone

CASES: dict[str, tuple[str, list[tuple[int, ...]], dict[str, Any]]] = {
    "matmul": ("matmul", [(10, 7), (7, 70)], {}),
    "batched matmul": ("matmul", [(3, 5, 6), (6, 33)], {}),
    "broadcast matmul": ("matmul", [(2, 1, 9, 4), (3, 4, 40)], {}),
    "conv1d": ("nn.conv1d", [(2, 3, 11), (6, 3, 4)], {}),
    "conv2d": ("nn.conv2d", [(1, 3, 8, 9), (6, 3, 3, 2)], {"padding": (1, 1, 1, 1), "strides": (2, 2)}),
    "conv2d with bias": ("nn.conv2d", [(2, 3, 6, 5), (5, 3, 3, 3), (5,)], {"padding": (1, 1, 1, 1)}),
    "conv3d": ("nn.conv3d", [(1, 2, 4, 5, 6), (5, 2, 2, 3, 2)], {}),
}


def made(op: str, shapes: list[tuple[int, ...]], attrs: dict[str, Any]) -> tuple[Call, PrimFunc]:
    use = call(op, *(var(f"x{k}", TensorType(s, FLOAT32)) for k, s in enumerate(shapes)), **attrs)
    assert isinstance(use, Call)
    types = tuple(TensorType(s, FLOAT32) for s in shapes)
    return use, build(op, use.attrs, types, use.type, "kernel")


@pytest.mark.parametrize("name", CASES)
def test_the_same_bits(name: str) -> None:
    use, plain = made(*CASES[name])
    kernel = tiled(use, "kernel")
    assert kernel is not None and any(
        isinstance(s, Allocate) and s.buffer.name == "out_tile" for s in program_order(kernel.body)
    )
    assert equivalent(plain, kernel).holds(BIT_EXACT)
    rng = np.random.default_rng(3)
    inputs = [rng.standard_normal(b.static_shape).astype(np.float32) for b in plain.inputs]
    (want,) = vector.run(plain, inputs)
    compiled = compile_c(emit(alone(kernel), "one"), reproducible=True, flags=(*STRICT, "-O2"))
    data = {b.name: x for b, x in zip(plain.inputs, inputs, strict=True)}
    assert compiled.run(data, fill=0)["out"].tobytes() == want.tobytes() == vector.run(kernel, inputs)[0].tobytes()


@pytest.mark.parametrize(
    ("op", "shapes", "attrs"),
    [
        ("matmul", [(3, 7), (7, 70)], {}),
        ("matmul", [(7,), (7, 70)], {}),
        ("matmul", [(9, 7), (7, 8)], {}),
        ("nn.relu", [(40, 40)], {}),
        ("nn.conv2d", [(1, 4, 8, 9), (4, 1, 3, 3)], {"groups": 4}),
    ],
)
def test_what_is_small_or_grouped_stays(op: str, shapes: list[tuple[int, ...]], attrs: dict[str, Any]) -> None:
    use, plain = made(op, shapes, attrs)
    kernel = tiled(use, "kernel")
    assert kernel is None or equivalent(plain, kernel).holds(BIT_EXACT)


def test_as_a_strategy() -> None:
    """A small network with it passes the check of legalize."""
    b = Builder()
    with b.function("main", x=tensor(1, 3, 8, 8), w=tensor(6, 3, 3, 3), y=tensor(6, 36)) as f:
        rows = b.nn.relu(b.nn.conv2d(f.x, f.w))
        b.result(b.matmul(b.reshape(rows, shape=(36, 6)), f.y))
    source = b.module()
    target = legalize(source, strategy=tiled)
    assert any(isinstance(s, Allocate) for k in target.kernels.values() for s in program_order(k.body))
    evidence = check_legalize(source, target)
    assert evidence.holds, evidence.detail


PRIME = (1 << 31) - 1


@pytest.mark.parametrize("meaning", [lambda: Field(PRIME), Fingerprint], ids=["Field", "Fingerprint"])
def test_the_loops_of_the_c_itself(meaning: Callable[[], Field | Fingerprint]) -> None:
    """The C of the tiled kernel, its numbers replaced by random words, against the plain kernel's words."""
    use, plain = made(*CASES["conv2d with bias"])
    kernel = tiled(use, "kernel")
    assert kernel is not None
    rng = np.random.default_rng(5)
    words = [rng.integers(0, PRIME, b.static_shape, dtype=np.uint64) for b in plain.inputs]
    (want,) = vector.run(over_words(plain, meaning()), words)
    compiled = compile_c(emit(alone(over_words(kernel, meaning())), "one"), reproducible=True, flags=(*STRICT, "-O2"))
    data = {b.name: x for b, x in zip(plain.inputs, words, strict=True)}
    assert np.array_equal(compiled.run(data, fill=0)["out"] % PRIME, want % PRIME)

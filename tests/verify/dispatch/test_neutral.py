"""Padding that is proved to be neutral is: whatever the padding holds. And what mixes with it is refused, in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from assay.interp import vector
from assay.interp.binding import shape_at
from assay.lower.c.single import symbols_of_kernel
from assay.semantics.dtypes import FLOAT32
from assay.semantics.errors import AssayError
from assay.semantics.ops import OPERATORS
from assay.semantics.scalar import Var, apply, cast
from assay.semantics.tensor import Allocate, Assert, Buffer, If, PrimFunc, loops, seq, store
from assay.verify.dispatch.any_size import SizesOfOperator, sizes_of_operator
from assay.verify.dispatch.neutral import why_not_neutral
from assay.verify.trials.kernels import different

pytestmark = pytest.mark.row("J1", "J6")
Array = np.ndarray[Any, Any]
N, M = Var("n"), Var("m")
X, Y = Buffer("x", (N, M), FLOAT32), Buffer("y", (N, M), FLOAT32)
COMBINE = {
    "nn.softmax": "d2", "mean": "d0", "sum": "d0", "matmul": "d2", "nn.layer_norm": "d2", "cumsum": "d1", "max": "d0",
    "argmax": "d0", "sort": "d0", "take": "d0", "flip": "d0", "topk": "d1",
}  # fmt: skip
"""Operators and the size of their best example along which they mix elements, or pick some of them."""


def found(name: str) -> SizesOfOperator:
    made = sizes_of_operator(OPERATORS[name])
    assert made is not None
    return made


@pytest.mark.parametrize("name", [n for n in COMBINE if n in OPERATORS])
def test_what_mixes_elements_is_refused_along_them_only(name: str) -> None:
    said = dict(found(name).padding())
    assert said[COMBINE[name]], said
    assert "" in said.values() or name in ("mean", "sum", "max", "argmax")


def corner(buffer: Buffer, sizes: dict[Var, int]) -> tuple[slice, ...]:
    return tuple(slice(n) for n in shape_at(buffer, sizes))


def drawn(buffer: Buffer, sizes: dict[Var, int], seed: int) -> Array:
    """Small numbers, which are good indices, or for floats any."""
    rng = np.random.default_rng(seed)
    shape = shape_at(buffer, sizes)
    if buffer.dtype.is_float:
        return np.asarray(rng.standard_normal(shape) * 10).astype(buffer.dtype.numpy)
    return np.asarray(rng.integers(0, 2, shape)).astype(buffer.dtype.numpy)


def compare(kernel: PrimFunc, grown: Var, small: int = 3, large: int = 5) -> bool:
    """Whether the kernel ran at both sizes; AssertionError where they differ. The padding holds anything."""
    sizes = {v: small for v in symbols_of_kernel(kernel)}
    padded = {**sizes, grown: large}
    own = [drawn(b, sizes, i) for i, b in enumerate(kernel.inputs)]
    whole = [drawn(b, padded, 100 + i) for i, b in enumerate(kernel.inputs)]
    for b, x, wide in zip(kernel.inputs, own, whole, strict=True):
        wide[corner(b, sizes)] = x
    try:
        right = vector.run(kernel, own, scalars=[sizes[s] for s in kernel.scalars])
        got = vector.run(kernel, whole, scalars=[padded[s] for s in kernel.scalars])
    except AssayError:
        return False
    for b, one, other in zip(kernel.outputs, right, got, strict=True):
        odd = different(one, np.ascontiguousarray(other[corner(b, sizes)]).reshape(one.shape))
        assert odd is None, f"{kernel.name} along {grown.name}: {odd}"
    return True


def check_operators(names: list[str]) -> int:
    ran = 0
    for name in names:
        made = sizes_of_operator(OPERATORS[name])
        if made is not None and made.kernel is not None:
            for v in symbols_of_kernel(made.kernel):
                if not why_not_neutral(made.kernel, {v}):
                    ran += compare(made.kernel, v)
    return ran


def test_what_is_proved_holds_for_any_padding() -> None:
    assert check_operators([n for n, op in OPERATORS.items() if op.family != "elementwise"][::6]) >= 10


@pytest.mark.campaign
def test_what_is_proved_holds_for_any_padding_of_every_operator() -> None:
    assert check_operators(list(OPERATORS)) > 150


# --- planted faults --------------------------------------------------------------------------------------------------


def kernel(body: Any, *params: Buffer, outputs: int = 1) -> PrimFunc:
    return PrimFunc("f", params or (X, Y), outputs, body)


ROW = Buffer("row", (M,), FLOAT32)
ACC = Buffer("acc", (), FLOAT32)
OUT = Buffer("out", (N,), FLOAT32)
ONE = Buffer("one", (1,), FLOAT32)
INDEX = Buffer("index", (N,), Var("i").dtype)

NEUTRAL: dict[str, tuple[PrimFunc, set[Var]]] = {
    "elementwise": (kernel(loops("i j", (N, M), lambda i, j: store(Y, (i, j), X[i, j] + 1.0))), {N, M}),
    "a row of its own in each iteration": (
        kernel(
            Allocate(
                ROW,
                loops(
                    "i",
                    (N,),
                    lambda i: seq(
                        loops("j", (M,), lambda j: store(ROW, j, X[i, j] * 2.0)),
                        loops("k", (M,), lambda k: store(Y, (i, k), ROW[M - 1 - k])),
                    ),
                ),
            )
        ),
        {N},
    ),
    "a cell that is written anew": (
        kernel(
            Allocate(
                ACC,
                loops(
                    "i",
                    (N,),
                    lambda i: seq(
                        store(ACC, (), 0.0),
                        loops("j", (M,), lambda j: store(ACC, (), ACC[()] + X[i, j])),
                        store(OUT, i, ACC[()]),
                    ),
                ),
            ),
            X,
            OUT,
        ),
        {N},
    ),
}
REFUSED: dict[str, tuple[PrimFunc, set[Var], str]] = {
    "a sum along it": (NEUTRAL["a cell that is written anew"][0], {M}, "combines what lies along axis 1 of x"),
    "a cell that is not written anew": (
        kernel(
            Allocate(
                ACC,
                seq(
                    store(ACC, (), 0.0),
                    loops(
                        "i j", (N, M), lambda i, j: seq(store(ACC, (), ACC[()] + X[i, j]), store(Y, (i, j), ACC[()]))
                    ),
                ),
            )
        ),
        {N},
        "combines",
    ),
    "a row that is written in part": (
        kernel(
            Allocate(
                ROW,
                loops(
                    "i",
                    (N,),
                    lambda i: seq(
                        loops("j", (M - 1,), lambda j: store(ROW, j, X[i, j])),
                        loops("k", (M,), lambda k: store(Y, (i, k), ROW[k])),
                    ),
                ),
            )
        ),
        {N},
        "combines",
    ),
    "it is turned round": (
        kernel(loops("i j", (N, M), lambda i, j: store(Y, (i, j), X[N - 1 - i, j]))), {N}, "depends on n itself"
    ),
    "it divides by the size": (
        kernel(loops("i j", (N, M), lambda i, j: store(Y, (i, j), X[i, j] / cast(N, "float32")))),
        {N},
        "depends on n itself: n",
    ),
    "a condition on the size": (
        kernel(
            loops(
                "i j",
                (N, M),
                lambda i, j: If(apply("lt", i + 1, N), store(Y, (i, j), X[i, j]), store(Y, (i, j), 0.0)),
            )
        ),
        {N},
        "depends on n itself",
    ),
    "all into one place": (kernel(loops("i j", (N, M), lambda i, j: store(ONE, 0, X[i, j])), X, ONE), {N}, "combines"),
    "picked by numbers that are read": (
        kernel(loops("i", (N,), lambda i: store(OUT, i, X[INDEX[i], 0])), INDEX, X, OUT),
        {N},
        "picks elements of x along axis 0",
    ),
    "it counts the other way": (
        kernel(loops("i j", (10 - N, M), lambda i, j: store(Y, (i, j), X[i, j]))), {N}, "may be fewer with more n"
    ),
    "an assertion on the size": (
        kernel(
            seq(
                Assert(apply("lt", N, 7), "few"), loops("i j", (N, M), lambda i, j: store(Y, (i, j), X[i, j]))
            )
        ),
        {N},
        "depends on n itself",
    ),
    "it reads behind": (
        kernel(loops("i", (N,), lambda i: store(OUT, i, X[i + 1, 0])), X, OUT), {N}, "may be padding along axis 0"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NEUTRAL)
def test_neutral(name: str) -> None:
    func, grown = NEUTRAL[name]
    for v in grown:
        assert why_not_neutral(func, {v}) == ""
        assert compare(func, v)


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    func, grown, said = REFUSED[name]
    assert said in why_not_neutral(func, grown)

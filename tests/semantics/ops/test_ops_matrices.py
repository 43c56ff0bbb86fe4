"""Determinants and Fourier transforms: against other formulas, bounds, edges, kernels, refusals."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import permutations
from math import prod
from typing import Any

import numpy as np
import pytest

from assay.interp.tensor import run as run_kernel
from assay.lower.legalize.kernels import build
from assay.semantics.bounds import Bounded, contains
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Invalid
from assay.semantics.ops import OPERATORS
from assay.semantics.types import TensorType

F32 = np.float32
INF, NAN = np.inf, np.nan


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def run(name: str, x: Any, **attrs: Any) -> Any:
    op = OPERATORS[name]
    filled = op.check_attrs(attrs)
    result = op.type_rule(filled, (TensorType(x.shape, x.of if isinstance(x, Bounded) else dtype(x.dtype)),))
    found = op.value(filled, x)
    assert isinstance(result, TensorType) and found.shape == result.shape
    return found


def kernel(name: str, x: Any, **attrs: Any) -> Any:
    op = OPERATORS[name]
    of = (TensorType(x.shape, dtype(x.dtype)),)
    (found,) = run_kernel(build(name, attrs, of, op.type_rule(op.check_attrs(attrs), of), "kernel"), [x])
    return found


def exact(matrix: Any) -> Fraction:
    """The sum over all permutations, in fractions."""
    size, total = len(matrix), Fraction(0)
    for order in permutations(range(size)):
        turned = sum(a > b for k, b in enumerate(order) for a in order[:k])
        total += (-1) ** turned * prod((Fraction(float(matrix[i, j])) for i, j in enumerate(order)), start=Fraction(1))
    return total


@pytest.mark.parametrize("of", ["float16", "float32", "float64", "bfloat16"])
@pytest.mark.parametrize("size", [0, 1, 2, 3, 5])
def test_det(of: str, size: int) -> None:
    x = np.random.default_rng(size).normal(size=(40, size, size)).astype(dtype(of).numpy)
    x[0] = 0
    if size > 1:
        x[1, 0] = x[1, 1]
        x[2, 0, 0] = 0  # a pivot must be looked for
    bound = run("det", Bounded.exact(x))
    assert contains(bound, run("det", x)).all() and contains(bound, kernel("det", x)).all()
    for matrix, value, radius in zip(x, bound.value, bound.radius, strict=True):
        assert abs(float(exact(matrix) - Fraction(float(value)))) <= radius
    if of in ("float32", "float64"):
        plain = np.random.default_rng(9).normal(size=(40, 3, 3)).astype(of)
        tight = run("det", Bounded.exact(plain))
        assert (tight.radius <= 1e-3).all()
        assert not contains(tight, (tight.value * (1 + 1e-2) + 1e-2).astype(of)).any(), "a planted fault"


def test_det_of_an_uncertain_matrix() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(3, 3)).astype(F32)
    bound = run("det", Bounded(x.astype(np.float64), np.full((3, 3), 0.01), dtype("float32")))
    for _ in range(200):
        near = (x + rng.choice([-0.01, 0.01], (3, 3))).astype(F32)
        assert contains(bound, run("det", near)).all()


def test_det_says_nothing_of_what_overflows() -> None:
    for x in (np.full((2, 2), NAN, F32), np.full((2, 2), INF, F32), np.diag(np.full(3, F32(1e30)))):
        assert np.isinf(run("det", Bounded.exact(x)).radius).all()


FORMS = [
    (of, n, inverse, onesided) for of in ("float32", "float64", "float16") for n in (1, 2, 5, 8)
    for inverse in (False, True) for onesided in (False, True)
]  # fmt: skip


@pytest.mark.parametrize(("of", "n", "inverse", "onesided"), FORMS)
def test_dft(of: str, n: int, inverse: bool, onesided: bool) -> None:
    rng = np.random.default_rng(n)
    for parts in (1, 2):
        if onesided and parts != (2 if inverse else 1):
            continue
        size = n // 2 + 1 if inverse and onesided else n
        x = rng.normal(size=(3, size, parts)).astype(of)
        attrs = {"length": n, "inverse": inverse, "onesided": onesided}
        numbers = x[..., 0].astype(np.float64) + (1j * x[..., 1].astype(np.float64) if parts == 2 else 0)
        if inverse and onesided:  # the other half is the mirror image, conjugated; NumPy drops what cannot be there
            half = numbers.copy()
            half[..., 0] = half[..., 0].real
            if n % 2 == 0:
                half[..., -1] = half[..., -1].real
            numbers = np.concatenate([half, half[..., 1 : (n + 1) // 2][..., ::-1].conj()], axis=-1)
        turn = np.exp((2j if inverse else -2j) * np.pi * np.outer(np.arange(n), np.arange(n)) / n)
        wanted = numbers @ turn / (n if inverse else 1)
        wanted = wanted[..., : n // 2 + 1] if onesided and not inverse else wanted
        both = np.stack([wanted.real, wanted.imag], -1)[..., : 1 if inverse and onesided else 2]
        bound = run("dft", Bounded.exact(x), **attrs)
        assert (np.abs(both - bound.value) <= bound.radius).all()
        assert contains(bound, run("dft", x, **attrs)).all() and contains(bound, kernel("dft", x, **attrs)).all()
        if of != "float16":
            assert (bound.radius < 1e-4).all()
            assert not contains(bound, (bound.value + 0.01).astype(of)).any(), "a planted fault"


def test_dft_of_specials_and_large_numbers() -> None:
    x = np.ones((3, 4, 1), F32)
    x[1, 2], x[2] = NAN, 1e38
    bound = run("dft", Bounded.exact(x), length=4)
    assert np.isinf(bound.radius[1:]).all() and np.isfinite(bound.radius[0]).all()


@pytest.mark.parametrize(
    ("name", "shape", "of", "attrs", "label"),
    [
        ("det", (2, 3), "float32", {}, "det.C1"),
        ("det", (3,), "float32", {}, "det.C1"),
        ("det", (2, 2), "int32", {}, "dtype.C3"),
        ("dft", (4, 2), "int32", {"length": 4}, "dtype.C3"),
        ("dft", (4, 2), "float32", {"length": 0}, "dft.C1"),
        ("dft", (4, 2), "float32", {"length": True}, "dft.C1"),
        ("dft", (4, 2), "float32", {"length": 4, "inverse": 1}, "dft.C2"),
        ("dft", (4, 2), "float32", {"length": 4, "onesided": 0}, "dft.C2"),
        ("dft", (4, 3), "float32", {"length": 4}, "dft.C3"),
        ("dft", (2,), "float32", {"length": 2}, "dft.C3"),
        ("dft", (4, 2), "float32", {"length": 5}, "dft.C4"),
        ("dft", (4, 2), "float32", {"length": 4, "inverse": True, "onesided": True}, "dft.C4"),
        ("dft", (4, 2), "float32", {"length": 4, "onesided": True}, "dft.C5"),
        ("dft", (3, 1), "float32", {"length": 4, "inverse": True, "onesided": True}, "dft.C5"),
    ],
)
def test_invalid(name: str, shape: tuple[int, ...], of: str, attrs: dict[str, Any], label: str) -> None:
    op = OPERATORS[name]
    with pytest.raises(Invalid, match=rf"\[{label}\]"):
        op.type_rule(op.check_attrs(attrs), (TensorType(shape, dtype(of)),))

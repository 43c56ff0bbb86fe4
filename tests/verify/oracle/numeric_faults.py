"""Right, less precise and wrong ways to compute a matrix product, and the data on which they are told apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]
Product = Callable[[Array, Array], Array]
M, K, N = 40, 256, 40


# --- data -------------------------------------------------------------------------------------------------------------


def _integers(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    return rng.integers(-8, 9, shape).astype(np.float64)


def _cancelling(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    """Along the axis of the sum each number is followed by nearly its opposite, or by nearly itself."""
    axis = 1 if shape == (M, K) else 0
    half = rng.standard_normal((shape[0], K // 2) if axis else (K // 2, shape[1]))
    sign = -1 if axis else 1
    other = sign * half * (1 + 1e-6 * rng.standard_normal(half.shape))
    return np.stack([half, other], axis=axis + 1).reshape(shape)


def _onto_one(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    """Small terms of about one size onto a large one that is a power of two."""
    values = rng.uniform(0.5, 1.0, shape) * rng.choice([-1.0, 1.0], shape)
    if shape == (M, K):
        values[:, 0] = 64.0
    else:
        values[0, :] = 64.0
    return values


def _onto_one_varied(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    """Terms of widely varying size onto a large one."""
    values = np.exp2(rng.uniform(-12, 0, shape)) * rng.choice([-1.0, 1.0], shape)
    if shape == (M, K):
        values[:, 0] = 16.0
    else:
        values[0, :] = 16.0
    return values


def _full(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    return np.exp2(rng.uniform(-20, 20, shape)) * rng.choice([-1.0, 1.0], shape)


DATA: dict[str, Callable[[np.random.Generator, tuple[int, int]], Array]] = {
    "integers": _integers,
    "uniform": lambda rng, shape: rng.uniform(-1, 1, shape),
    "positive": lambda rng, shape: rng.uniform(0, 1, shape),
    "cancelling": _cancelling,
    "onto one": _onto_one,
    "onto one, varied": _onto_one_varied,
    "full range": _full,
}


def operands(kind: str, seed: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    return DATA[kind](rng, (M, K)).astype(np.float32), DATA[kind](rng, (K, N)).astype(np.float32)


# --- right ways -------------------------------------------------------------------------------------------------------


def in_order(a: Array, b: Array, order: Array) -> Array:
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in order:
        total += a[:, k, None] * b[None, k]
    return total


def _parts(x: Array, count: int) -> list[Array]:
    parts = []
    for _ in range(count):
        part = x.astype(ml_dtypes.bfloat16).astype(np.float32)
        parts.append(part)
        x = x - part
    return parts


def split(count: int, products: tuple[tuple[int, int], ...]) -> Product:
    def run(a: Array, b: Array) -> Array:
        left, right = _parts(a, count), _parts(b, count)
        total = np.zeros((a.shape[0], b.shape[1]), np.float32)
        for i, j in products:
            total = total + left[i] @ right[j]
        return total

    return run


RIGHT: dict[str, Product] = {
    "in order": lambda a, b: in_order(a, b, np.arange(a.shape[1])),
    "BLAS": lambda a, b: a @ b,
    "reversed": lambda a, b: in_order(a, b, np.arange(a.shape[1])[::-1]),
    "any order": lambda a, b: in_order(a, b, np.random.default_rng(1).permutation(a.shape[1])),
    "float64": lambda a, b: (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32),
    "bf16 x 6": split(3, ((0, 2), (1, 1), (2, 0), (0, 1), (1, 0), (0, 0))),
}
SPLIT: dict[str, Product] = {"bf16 x 3": split(2, ((0, 1), (1, 0), (0, 0)))}
"""Right only for a backend that declares it."""


# --- less precise -----------------------------------------------------------------------------------------------------


def _cut(x: Array, bits: int) -> Array:
    """float32 with so many bits of the fraction, to nearest."""
    fraction, exponent = np.frexp(x.astype(np.float64))
    return np.ldexp(np.rint(fraction * 2.0 ** (bits + 1)) / 2.0 ** (bits + 1), exponent).astype(np.float32)


def _bf16_sums(a: Array, b: Array) -> Array:
    total = np.zeros((a.shape[0], b.shape[1]), ml_dtypes.bfloat16)
    for k in range(a.shape[1]):
        total = (total.astype(np.float32) + a[:, k, None] * b[None, k]).astype(ml_dtypes.bfloat16)
    return total.astype(np.float32)


def _half(a: Array, b: Array) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        return a.astype(np.float16).astype(np.float32) @ b.astype(np.float16).astype(np.float32)


LOW: dict[str, Product] = {
    "tf32": lambda a, b: _cut(a, 10) @ _cut(b, 10),
    "bf16": lambda a, b: (
        a.astype(ml_dtypes.bfloat16).astype(np.float32) @ b.astype(ml_dtypes.bfloat16).astype(np.float32)
    ),
    "fp16": _half,
    "bf16 sums": _bf16_sums,
}


# --- wrong ------------------------------------------------------------------------------------------------------------


def _changed(y: Array, change: Callable[[Array], Any]) -> Array:
    y = y.copy()
    change(y)
    return y


def _one(y: Array) -> None:
    y[7, 11] = y[7, 12]


def _nan(y: Array) -> None:
    y[3, 5] = np.nan


WRONG: dict[str, Product] = {
    "last k dropped": lambda a, b: a[:, :-1] @ b[:-1],
    "last k twice": lambda a, b: a @ b + a[:, -1:] @ b[-1:],
    "one element another's": lambda a, b: _changed(a @ b, _one),
    "x (1 + 1e-4)": lambda a, b: (a @ b) * np.float32(1 + 1e-4),
    "x (1 + 2e-6)": lambda a, b: (a @ b) * np.float32(1 + 2e-6),
    "+ 1e-5 of the largest": lambda a, b: (y := a @ b) + np.float32(1e-5) * np.abs(y).max(),
    "one NaN": lambda a, b: _changed(a @ b, _nan),
}

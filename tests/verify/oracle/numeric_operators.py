"""Right and wrong ways to compute a sum, a softmax, a convolution, poolings and an elementwise function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.semantics.builder import Builder, tensor
from assay.semantics.module import Module

Array = np.ndarray[Any, Any]
Way = Callable[..., Array]
F = np.float32


@dataclass(frozen=True)
class Case:
    module: Module
    right: dict[str, Way]
    wrong: dict[str, Way]
    kinds: tuple[Any, ...] = ("integers", "random", "cancelling", "large", "specials")


def one(build: Callable[..., Any], **operands: Any) -> Module:
    b = Builder()
    with b.function("main", **operands) as f:
        b.result(build(b, *(getattr(f, n) for n in operands)))
    return b.module()


def _ordered(x: Array, step: int) -> Array:
    total = np.zeros(x.shape[0], F)
    for k in range(x.shape[1])[::step]:
        total = total + x[:, k]
    return total


SUM = Case(
    one(lambda b, x: b.sum(x, axis=(1,)), x=tensor(1200, 96)),
    {
        "pairwise": lambda x: x.sum(axis=1, dtype=F),
        "in order": lambda x: _ordered(x, 1),
        "reversed": lambda x: _ordered(x, -1),
        "float64": lambda x: x.astype(np.float64).sum(axis=1).astype(F),
    },
    {
        "last one dropped": lambda x: x[:, :-1].sum(axis=1, dtype=F),
        "first one twice": lambda x: x.sum(axis=1, dtype=F) + x[:, 0],
        "mean": lambda x: x.mean(axis=1, dtype=F),
        "float16 sums": lambda x: x.astype(np.float16).sum(axis=1, dtype=np.float16).astype(F),
        "x (1 + 1e-5)": lambda x: x.sum(axis=1, dtype=F) * F(1 + 1e-5),
        "the next row's": lambda x: np.roll(x.sum(axis=1, dtype=F), 1),
    },
)


def _softmax(x: Array, axis: int = 1, of: Any = F) -> Array:
    e = np.exp(x.astype(of) - x.max(axis=axis, keepdims=True).astype(of))
    return (e / e.sum(axis=axis, keepdims=True)).astype(F)


SOFTMAX = Case(
    one(lambda b, x: b.nn.softmax(x, axis=1), x=tensor(30, 40, 3)),
    {"float32": _softmax, "float64": lambda x: _softmax(x, of=np.float64)},
    {
        "another axis": lambda x: _softmax(x, axis=2),
        "no maximum subtracted": lambda x: np.exp(x) / np.exp(x).sum(axis=1, keepdims=True),
        "last one not in the sum": lambda x: (
            (e := np.exp(x - x.max(1, keepdims=True))) / e[:, :-1].sum(1, keepdims=True)
        ),
        "float16": lambda x: _softmax(x, of=np.float16),
        "x (1 + 1e-5)": lambda x: _softmax(x) * F(1 + 1e-5),
    },
    ("random", "large", "specials"),
)


def _conv(
    x: Array, w: Array, stride: int = 1, pad: int = 1, flip: bool = False, drop: bool = False, of: Any = F
) -> Array:
    """N C H W with O C 3 3, by a matrix product of all windows."""
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)), "edge" if drop else "constant").astype(of)
    taps = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))[:, :, ::stride, ::stride]
    w = w[..., ::-1, ::-1] if flip else w
    return np.einsum("nchwij,ocij->nohw", taps, w.astype(of), optimize=True).astype(F)


CONVOLUTION = Case(
    one(lambda b, x, w: b.nn.conv2d(x, w, padding=(1, 1, 1, 1)), x=tensor(2, 5, 9, 11), w=tensor(7, 5, 3, 3)),
    {"einsum": _conv, "float64": lambda x, w: _conv(x, w, of=np.float64)},
    {
        "taps flipped": lambda x, w: _conv(x, w, flip=True),
        "padded with the edge": lambda x, w: _conv(x, w, drop=True),
        "last channel dropped": lambda x, w: _conv(x[:, :-1], w[:, :-1]),
        "height and width swapped": lambda x, w: _conv(x, np.swapaxes(w, 2, 3)),
        "float16": lambda x, w: _conv(x.astype(np.float16), w.astype(np.float16)),
        "x (1 + 1e-5)": lambda x, w: _conv(x, w) * F(1 + 1e-5),
    },
    ("integers", "random", "cancelling", "large"),
)


def _pools(x: Array) -> Array:
    return np.lib.stride_tricks.sliding_window_view(x, (2, 2), axis=(2, 3))


AVERAGE = Case(
    one(lambda b, x: b.nn.avg_pool2d(x, pool_size=(2, 2)), x=tensor(3, 5, 12, 11)),
    {
        "mean": lambda x: _pools(x).mean(axis=(4, 5), dtype=F),
        "times a quarter": lambda x: _pools(x).sum(axis=(4, 5), dtype=F) * F(0.25),
    },
    {
        "divided by 3": lambda x: _pools(x).sum(axis=(4, 5), dtype=F) / F(3),
        "one window late": lambda x: np.roll(_pools(x).mean(axis=(4, 5), dtype=F), 1, 3),
        "float16": lambda x: _pools(x.astype(np.float16)).mean(axis=(4, 5), dtype=np.float16).astype(F),
        "x (1 + 1e-5)": lambda x: _pools(x).mean(axis=(4, 5), dtype=F) * F(1 + 1e-5),
        "the middle of both ends": lambda x: (_pools(x).max(axis=(4, 5)) + _pools(x).min(axis=(4, 5))) / F(2),
    },
    ("integers", "random", "cancelling", "large"),
)

MAXIMUM = Case(
    one(lambda b, x: b.nn.max_pool2d(x, pool_size=(2, 2), padding=(1, 0, 1, 0)), x=tensor(3, 5, 12, 11)),
    {
        "max": lambda x: _pools(np.pad(x, ((0, 0), (0, 0), (1, 1), (0, 0)), constant_values=-np.inf)).max(axis=(4, 5)),
    },
    {
        "padded with 0": lambda x: _pools(np.pad(x, ((0, 0), (0, 0), (1, 1), (0, 0)))).max(axis=(4, 5)),
        "NaN skipped": lambda x: np.fmax.reduce(
            _pools(np.pad(x, ((0, 0), (0, 0), (1, 1), (0, 0)), constant_values=-np.inf)), axis=(4, 5)
        ),
        "last bit": lambda x: np.nextafter(
            _pools(np.pad(x, ((0, 0), (0, 0), (1, 1), (0, 0)), constant_values=-np.inf)).max(axis=(4, 5)), F(0)
        ),
    },
)

TANH = Case(
    one(lambda b, x: b.tanh(x), x=tensor(40, 30)),
    {"float32": np.tanh, "float64": lambda x: np.tanh(x.astype(np.float64)).astype(F)},
    {
        "five ulp off": lambda x: (y := np.tanh(x)) + F(5) * np.spacing(y),
        "clipped at 3": lambda x: np.tanh(np.clip(x, -3, 3)),
        "rational": lambda x: np.clip(x * (27 + x * x) / (27 + 9 * x * x), -1, 1).astype(F),
        "NaN taken for 0": lambda x: np.tanh(np.nan_to_num(x)),
    },
)

NEGATE = Case(
    one(lambda b, x: b.negative(x), x=tensor(40, 30)),
    {"negative": np.negative},
    {"0 - x": lambda x: F(0) - x, "NaN taken for 0": lambda x: -np.where(np.isnan(x), F(0), x)},
)

CASES = {
    "sum": SUM, "softmax": SOFTMAX, "convolution": CONVOLUTION, "average pooling": AVERAGE, "maximum pooling": MAXIMUM,
    "tanh": TANH, "negative": NEGATE,
}  # fmt: skip

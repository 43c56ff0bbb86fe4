"""Determinants and Fourier transforms (specs/semantics.md, "Contraction" and "Stepwise")."""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.semantics.bounds import SLACK, Bounded, gamma
from assay.semantics.operator import Attr, Attrs, Example, Operator
from assay.semantics.ops.common import require_kind
from assay.semantics.ops.reduction import accumulator
from assay.semantics.ops.sizes import is_int
from assay.semantics.scalar import provably_equal, show
from assay.semantics.types import TensorType

# --- det --------------------------------------------------------------------------------------------------------------


def _det_type(attrs: Attrs, types: tuple[TensorType, ...]) -> TensorType:
    (x,) = types
    require_kind("det", x.dtype, ("float",))
    DET.require(
        x.ndim >= 2 and provably_equal(x.shape[-1], x.shape[-2]), "C1", f"x is {x}; its last two axes have one size"
    )
    return TensorType(x.shape[:-2], x.dtype)


def _det(attrs: Attrs, x: Any) -> Any:
    """By elimination, the largest element of a column as its pivot, the first of equals."""
    if isinstance(x, Bounded):
        return _det_bound(x)
    size = x.shape[-1]
    count = int(np.prod(x.shape[:-2]))
    a = x.astype(accumulator(x.dtype)).reshape(count, size, size)
    rows, result = np.arange(count), np.ones(count, a.dtype)
    for k in range(size):
        best = k + np.argmax(np.abs(a[:, k:, k]), axis=1)
        a[rows, k], a[rows, best] = a[rows, best], a[rows, k]
        pivot = a[:, k, k]
        result = result * np.where(best == k, pivot, -pivot)
        factor = np.where((pivot == 0)[:, None], 0, a[:, k + 1 :, k] / np.where(pivot == 0, 1, pivot)[:, None])
        a[:, k + 1 :, k + 1 :] -= factor[:, :, None] * a[:, k, None, k + 1 :]
    return result.astype(x.dtype).reshape(x.shape[:-2])


def _det_bound(x: Bounded) -> Bounded:
    """Elimination gives the determinant of a matrix near by (Higham, Accuracy and Stability, theorem 9.3), and two
    determinants differ by no more than the rows' norms allow (Hadamard), one row after another."""
    of, size = x.of, x.shape[-1]
    if size <= 1:
        return x.reshape(x.shape[:-2]) if size else Bounded.exact(np.ones(x.shape[:-2], of.numpy))
    known: Any = np.isfinite(x.value).all(axis=(-2, -1)) & np.isfinite(x.radius).all(axis=(-2, -1))
    middle = np.where(known[..., None, None], x.value, 0.0)
    radius = np.where(known[..., None, None], x.radius, 0.0)
    largest = (np.abs(middle) + radius).max(axis=(-2, -1), keepdims=True)
    growth = min(2.0 ** (size - 1), max(8.0, size))
    off = radius + gamma(size + SLACK, of) * size * growth * largest
    norms, more = (np.sqrt((e * e).sum(axis=-1)) for e in (np.abs(middle), off))
    reach = np.prod(norms + more, axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.nan_to_num(more / (norms + more)).sum(axis=-1)
    value = np.linalg.det(middle)
    scale = np.prod(np.maximum(norms + more, 1.0), axis=-1)
    # a partial product of pivots may be below the normal numbers, or beyond the largest one
    lost = 8 * size * of.smallest_subnormal * scale
    total = share * reach + gamma(size + SLACK, of) * (np.abs(value) + share * reach) + lost
    fits = known & (scale * growth**size < float(of.max))
    return Bounded(np.where(fits, value, 0.0), np.where(fits, total, np.inf), of)


DET = Operator(
    "det",
    "The determinant of each matrix in the last two axes, by elimination; of a matrix without elements 1",
    ("x",),
    "stepwise",
    _det_type,
    _det,
    "the determinant of a matrix of size n whose elements are off by gamma(n + 8) n g times the largest magnitude,"
    " where the pivots may grow by g = min(2^(n-1), max(8, n)), by Hadamard's inequality; exact for one element",
    (
        Example((((3, 3), "float32"),)),
        Example((((5, 2, 4, 4), "float32"),)),
        Example((((3, 1, 1), "float32"),)),
        Example((((2, 0, 0), "float32"),)),
    ),
    constraints={"C1": "the last two axes are there and have one size"},
    source="ONNX Det, docs/Operators.md",
)

# --- dft --------------------------------------------------------------------------------------------------------------


def bins(attrs: Attrs) -> tuple[int, int]:
    """How many elements there are before and after, along the axis that is transformed."""
    length: int = attrs["length"]
    half = length // 2 + 1 if attrs["onesided"] else length
    return (half, length) if attrs["inverse"] else (length, half)


def _dft_type(attrs: Attrs, types: tuple[TensorType, ...]) -> TensorType:
    (x,) = types
    require_kind("dft", x.dtype, ("float",))
    DFT.require(is_int(attrs["length"], 1), "C1", f"length is {attrs['length']!r}; a positive integer is wanted")
    for flag in ("inverse", "onesided"):
        DFT.require(isinstance(attrs[flag], bool), "C2", f"{flag} is {attrs[flag]!r}, not True or False")
    parts = x.shape[-1] if x.ndim >= 2 else 0
    DFT.require(isinstance(parts, int) and parts in (1, 2), "C3", f"x is {x}; its last axis has 1 or 2 elements")
    before, after = bins(attrs)
    DFT.require(
        provably_equal(x.shape[-2], before),
        "C4",
        f"x is {x}; {before} as its last size but one, not {show(x.shape[-2])}",
    )
    wanted = 2 if attrs["inverse"] else 1
    DFT.require(
        not attrs["onesided"] or parts == wanted, "C5", f"x is {x}; with onesided its last axis has {wanted} elements"
    )
    real = attrs["inverse"] and attrs["onesided"]
    return TensorType((*x.shape[:-2], after, 1 if real else 2), x.dtype)


def _dft(attrs: Attrs, x: Any) -> Any:
    if isinstance(x, Bounded):
        return _dft_bound(attrs, x)
    wide = x.astype(accumulator(x.dtype))
    length, (_, after) = attrs["length"], bins(attrs)
    if wide.shape[-1] == 1 and not attrs["inverse"]:
        found: Any = np.fft.fft(wide[..., 0], axis=-1)[..., :after]
    else:
        numbers = np.zeros_like(wide[..., 0], np.complex64 if wide.dtype == np.float32 else np.complex128)
        numbers.real = wide[..., 0]
        if wide.shape[-1] == 2:
            numbers.imag = wide[..., 1]
        if not attrs["inverse"]:
            found = np.fft.fft(numbers, axis=-1)
        elif attrs["onesided"]:
            return np.fft.irfft(numbers, n=length, axis=-1)[..., None].astype(x.dtype)
        else:
            found = np.fft.ifft(numbers, axis=-1)
    return np.stack([found.real, found.imag], axis=-1).astype(x.dtype)


def _dft_bound(attrs: Attrs, x: Bounded) -> Bounded:
    """Each element of the result is a sum of as many products as there are elements, none greater than these, so that
    it is within gamma of the sum of the magnitudes; a fast transform is nearer."""
    of, length = x.of, attrs["length"]
    axes = (-2, -1)
    known = np.isfinite(x.value).all(axis=axes, keepdims=True) & np.isfinite(x.radius).all(axis=axes, keepdims=True)
    middle, radius = np.where(known, x.value, 0.0), np.where(known, x.radius, 0.0)
    value = _dft(attrs, middle)
    often = 2.0 if attrs["inverse"] and attrs["onesided"] else 1.0
    off = often * radius.sum(axis=axes, keepdims=True)
    size = often * np.abs(middle).sum(axis=axes, keepdims=True) + off
    scale = length if attrs["inverse"] else 1
    total = (off + gamma(2 * length + SLACK, of) * size) / scale + 4 * length * of.smallest_subnormal
    fits = known & (size < float(of.max) / 2)
    shape = value.shape
    return Bounded(np.where(fits, value, 0.0), np.broadcast_to(np.where(fits, total, np.inf), shape).copy(), of)


DFT = Operator(
    "dft",
    "The discrete Fourier transform along the last axis but one: the sum of x[j] exp(-2 pi i j k / length) for each k;"
    " inverse with +, and divided by length. The last axis has the real and the imaginary part, or the real one only."
    " Of a onesided transform the spectrum is that of a real signal, and is there for k up to length / 2",
    ("x",),
    "contraction",
    _dft_type,
    _dft,
    "(2 length + 8) unit roundoffs of the sum of the magnitudes of the elements, for all elements of the result",
    (
        Example((((3, 5, 2), "float32"),), {"length": 5}),
        Example((((4, 6, 1), "float32"),), {"length": 6}),
        Example((((7, 1), "float32"),), {"length": 7, "onesided": True}),
        Example((((2, 3, 4, 2), "float32"),), {"length": 4, "inverse": True}),
        Example((((3, 5, 1), "float32"),), {"length": 5, "inverse": True}),
        Example((((3, 4, 2), "float32"),), {"length": 7, "inverse": True, "onesided": True}),
        Example((((3, 4, 2), "float32"),), {"length": 6, "inverse": True, "onesided": True}),
    ),
    {
        "length": Attr("how many elements the signal has"),
        "inverse": Attr("whether a spectrum becomes a signal", False),
        "onesided": Attr("whether the signal is real, and only the first half of the spectrum is there", False),
    },
    {
        "C1": "length is a positive integer",
        "C2": "inverse and onesided are True or False",
        "C3": "the last of two axes at least has 1 or 2 elements",
        "C4": "the axis before it has as many as the signal, or the half of the spectrum",
        "C5": "a onesided transform takes real numbers, its inverse complex ones",
    },
    source="ONNX DFT, docs/Operators.md; numpy.fft",
)

TABLE: tuple[Operator, ...] = (DET, DFT)

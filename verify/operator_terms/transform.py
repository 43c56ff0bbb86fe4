"""What NumPy's Fourier transforms do to arrays of terms: the sum that defines them (specs/verify.md, "legalize").

A fast transform is the same function of real numbers as the sum of x[j] exp(-2 pi i j k / n). An angle stands in a
table by the remainder of j k: so the cosine and the sine are those of one number for each of the n angles.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi
from typing import Any

import numpy as np

from assay.semantics.scalar import convert, operation
from assay.verify.equivalence.order import UndecidedTrace
from assay.verify.operator_terms.array import ComplexTerms, TermArray, implements
from assay.verify.operator_terms.rules import total


def _angles(x: TermArray, length: int) -> tuple[TermArray, TermArray]:
    """Cosine and sine of each of the angles, by the scalar table, in the dtype of the numbers."""
    turns = np.arange(length, dtype=np.float64) * np.float64(2 * pi / length)
    cos, sin = (x.run.array(convert(np.asarray(operation(f).meaning(turns)), x.of)) for f in ("cos", "sin"))
    return cos, sin


def _sums(
    x: ComplexTerms | TermArray, length: int, outputs: int, back: bool, weights: Callable[[int], int]
) -> ComplexTerms:
    """The sums over the last axis; `weights` says how often an element counts."""
    real = x.real if isinstance(x, ComplexTerms) else x
    imag = x.imag if isinstance(x, ComplexTerms) else None
    count = real.shape[-1]
    cos, sin = _angles(real, length)
    made: list[tuple[TermArray, TermArray]] = []
    for k in range(outputs):
        turn = np.arange(count) * k % length
        c = cos[turn]
        s = sin[turn] if back else real.operate("neg", sin[turn])
        one, other = real * c, real * s
        if imag is not None:
            one, other = one - imag * s, other + imag * c
        often = np.array([weights(j) for j in range(count)])
        twice = np.flatnonzero(often == 2)
        if len(twice):
            one = _doubled(one, twice)
        made.append((total(one, axis=-1), total(other, axis=-1)))
    return ComplexTerms(*(_last_axis([m[p] for m in made]) for p in (0, 1)))


def _doubled(x: TermArray, at: np.ndarray[Any, Any]) -> TermArray:
    numbers = np.array(x.numbers)
    numbers[..., at] = (x[..., at] + x[..., at]).numbers
    return TermArray(x.run, numbers, x.of)


def _last_axis(parts: list[TermArray]) -> TermArray:
    return TermArray(parts[0].run, np.stack([p.numbers for p in parts], -1), parts[0].of)


@implements(np.fft.fft)
def transform(x: ComplexTerms | TermArray, n: Any = None, axis: int = -1) -> ComplexTerms:
    """From a signal to its spectrum."""
    _require(n is None, axis)
    length = (x.real if isinstance(x, ComplexTerms) else x).shape[-1]
    return _sums(x, length, length, False, lambda j: 1)


@implements(np.fft.ifft)
def inverse(x: ComplexTerms, n: Any = None, axis: int = -1) -> ComplexTerms:
    """And back."""
    _require(n is None, axis)
    length = x.real.shape[-1]
    found = _sums(x, length, length, True, lambda j: 1)
    count = np.asarray(length, x.real.dtype)
    return ComplexTerms(found.real / count, found.imag / count)


@implements(np.fft.irfft)
def inverse_of_half(x: ComplexTerms, n: int, axis: int = -1) -> TermArray:
    """From half of a spectrum to a real signal: what has a conjugate in the other half counts twice."""
    _require(True, axis)
    found = _sums(x, n, n, True, lambda j: 1 if j == 0 or 2 * j == n else 2)
    real: TermArray = found.real / np.asarray(n, x.real.dtype)
    return real


def _require(known: bool, axis: int) -> None:
    if not known or axis != -1:
        raise UndecidedTrace("a transform in another way has no rule for terms")

"""What the tests of kernels share: a run against wanted bits, data, and the scalar rules in plain Python."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from assay.interp.tensor import run
from assay.lower.legalize.kernels import build
from assay.semantics.dtypes import DType, dtype
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import TensorType, TupleType, Type

Array = np.ndarray[Any, Any]
Reference = Callable[..., Any]

FLOATS = ["float16", "bfloat16", "float32", "float64"]
NUMBERS = [*FLOATS, "int8", "uint8", "int32"]
SPECIALS = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, 1e-6, math.nan, math.inf, -math.inf, 57344.0, -3.0]


def type_of(array: Array) -> TensorType:
    return TensorType(array.shape, dtype(array.dtype))


def kernel(name: str, inputs: Sequence[Array], like: Any, **attrs: Any) -> PrimFunc:
    """The kernel of an operator at the types of `inputs`, its result of the types of `like`."""
    result: Type = TupleType(tuple(map(type_of, like))) if isinstance(like, tuple) else type_of(like)
    return build(name, attrs, tuple(map(type_of, inputs)), result, "kernel")


def check(name: str, inputs: Sequence[Array], like: Any, **attrs: Any) -> PrimFunc:
    """The kernel gives `like` (an array, or a tuple of them) bit for bit, NaN for NaN."""
    func = kernel(name, inputs, like, **attrs)
    got = run(func, inputs)
    for g, want in zip(got, like if isinstance(like, tuple) else (like,), strict=True):
        assert same_bits(g, want), f"{name} {attrs}:\n{g}\nwanted\n{want}"
    return func


def same_bits(a: Array, b: Array) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind in "iub":
        return np.array_equal(a, b)
    return bool(np.all((np.isnan(a) & np.isnan(b)) | ((a == b) & (np.signbit(a) == np.signbit(b)))))


def data(shape: Sequence[int], of: str = "float32", seed: int = 0) -> Array:
    """Numbers of both signs, the same for one seed and shape: integers from -9 to 9, floats from -2 to 2."""
    rng = np.random.default_rng([seed, *shape])
    d = dtype(of)
    if of == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if d.is_integer:
        return rng.integers(max(int(d.min), -9), 10, shape).astype(d.numpy)
    return rng.uniform(-2, 2, shape).astype(d.numpy)


def box(shape: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Every index into that shape, row-major."""
    return itertools.product(*map(range, shape))


def fold(op: Callable[[Any, Any], Any], start: Any, terms: Iterator[Any]) -> Any:
    """op(...op(op(start, first), second)..., last), each step rounded to the dtype of the start."""
    total = start
    with np.errstate(all="ignore"):
        for term in terms:
            total = start.dtype.type(op(total, term))
    return total


def larger(a: Any, b: Any) -> Any:
    """The larger of two; NaN if either is; +0 is larger than -0."""
    if np.isnan(a) or np.isnan(b):
        return a if np.isnan(a) else b
    if a == b:
        return b if np.signbit(a) else a
    return max(a, b)


def smaller(a: Any, b: Any) -> Any:
    """The smaller of two; NaN if either is; -0 is smaller than +0."""
    if np.isnan(a) or np.isnan(b):
        return a if np.isnan(a) else b
    if a == b:
        return a if np.signbit(a) else b
    return min(a, b)


def least(of: DType) -> Any:
    """-inf, or the least number of a dtype that has none."""
    return _infinity(-math.inf, of, of.min)


def greatest(of: DType) -> Any:
    """inf, or the greatest number of a dtype that has none."""
    return _infinity(math.inf, of, of.max)


def _infinity(sign: float, of: DType, otherwise: float) -> Any:
    if of.is_float and np.isinf(of.numpy.type(sign)):
        return of.numpy.type(sign)
    return of.numpy.type(otherwise)

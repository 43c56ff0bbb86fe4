"""The bytes of arrays: compared and hashed as they lie in memory, without a copy (specs/semantics.md, "Constants").

Two arrays are one constant if dtype, shape and every bit agree: payloads of NaN and the sign of zero count.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from assay.semantics.dtypes import dtype

Array = np.ndarray[Any, Any]

CHUNK = 1 << 22
"""Bytes that are looked at in one piece."""


def raw(array: Array) -> memoryview:
    """The bytes of an array in row-major order: those of the array itself where they lie in that order, else a copy."""
    if array.size == 0:
        return memoryview(b"")
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def same_bits(a: Array, b: Array) -> bool:
    """Whether two arrays have one dtype, one shape and the same bits."""
    if a is b:
        return True
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    one, other = raw(a), raw(b)
    return all(one[i : i + CHUNK] == other[i : i + CHUNK] for i in range(0, len(one), CHUNK))


def digest(array: Array, *more: str) -> str:
    """SHA-256 of dtype, shape and bytes, and of `more` words: 64 hexadecimal digits, the same in every process."""
    total = hashlib.sha256(repr((dtype(array.dtype).name, tuple(array.shape), *more)).encode())
    total.update(raw(array))
    return total.hexdigest()


def frozen(array: Array) -> Array:
    """The same memory as a row-major array that nobody writes through; itself where it is one."""
    if array.flags.c_contiguous and not array.flags.writeable:
        return array
    # NumPy makes a vector of a scalar
    data = (array if array.flags.c_contiguous else np.ascontiguousarray(array).reshape(array.shape)).view()
    data.flags.writeable = False
    return data

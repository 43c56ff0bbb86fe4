"""The bytes of arrays: compared and hashed as they lie in memory, without a copy (specs/semantics.md, "Constants").

Two arrays are one constant if dtype, shape and every bit agree: payloads of NaN and the sign of zero count.
"""

from __future__ import annotations

import hashlib
from mmap import mmap
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


def quiet(array: Array) -> Array:
    """The floats with every NaN as one: a function of a platform may tell a signalling NaN from others."""
    with np.errstate(invalid="ignore"):
        missing = np.isnan(array)
    return np.asarray(np.where(missing, array.dtype.type(np.nan), array)) if missing.any() else array


def raised(a: Array, b: Array) -> Array:
    """a to the power b, by the rules of C's pow. NumPy takes roots where one number, 0.5, is the exponent of all: that
    of -inf is NaN, that of -0 is -0."""
    y = np.asarray(np.power(quiet(a), quiet(b)))
    half = np.asarray(b == 0.5)
    if not half.any():
        return y
    y = np.where(half & (a == 0), y.dtype.type(0), y)
    return np.asarray(np.where(half & (a == -np.inf), y.dtype.type(np.inf), y))


def digest(array: Array, *more: str) -> str:
    """SHA-256 of dtype, shape and bytes, and of `more` words: 64 hexadecimal digits, the same in every process."""
    total = hashlib.sha256(repr((dtype(array.dtype).name, tuple(array.shape), *more)).encode())
    total.update(raw(array))
    return total.hexdigest()


def is_fixed(array: Array) -> bool:
    """Whether an array's elements cannot change: neither it nor any array whose memory it is can be written, and the
    memory is NumPy's own, bytes, or a file that is mapped."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        if owner.flags.writeable:
            return False
        owner = owner.base
    if isinstance(owner, memoryview):
        return owner.readonly and isinstance(owner.obj, (bytes, mmap))
    return owner is None or isinstance(owner, (bytes, mmap))


def fixed(array: Array) -> Array:
    """The same array, where it cannot change (`is_fixed`); else a read-only copy. What is repeated in it stays so,
    without memory of its own."""
    if is_fixed(array):
        return array
    core = array[
        *(slice(0, 1) if step == 0 else slice(None) for step in array.strides), ...
    ]  # ... of a scalar is an array
    copy = core.copy()
    copy.flags.writeable = False
    return copy if copy.shape == array.shape else np.broadcast_to(copy, array.shape)


def frozen(array: Array) -> Array:
    """A row-major array of the same contents that cannot change; itself where it is one."""
    if array.flags.c_contiguous:
        return fixed(array)
    data = np.ascontiguousarray(array).reshape(array.shape)  # NumPy makes a vector of a scalar
    owner = data if data.base is None else data.base
    owner.flags.writeable = data.flags.writeable = False
    return data

"""What tells one compiled kernel from another (specs/verify.md, "Kernels for unknown sizes").

A key is made of parts, never of a text or a row of numbers: (2, 34) and (23, 4) are two keys, and so are (2, 3) beside
(4,) and (2,) beside (3, 4). It has the function itself by its digest, and of every argument its dtype, its dims, where
it is, and how it lies in memory. Sizes are Python's integers, which nothing cuts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.semantics.dtypes import dtype
from assay.semantics.scalar import Var
from assay.semantics.walk import occurrences

Array = np.ndarray[Any, Any]

HOST = "cpu"
"""The one device whose memory a kernel of this process can read."""


@dataclass(frozen=True)
class ArgumentKey:
    """A tensor that is handed over. `strides` is None where it is dense and row-major."""

    dtype: str
    dims: tuple[int, ...]
    device: str = HOST
    strides: tuple[int, ...] | None = None

    @classmethod
    def of(cls, array: Array, device: str = HOST) -> ArgumentKey:
        """The key of an array."""
        dense = array.flags.c_contiguous
        return cls(str(dtype(array.dtype)), tuple(map(int, array.shape)), device, None if dense else array.strides)


@dataclass(frozen=True)
class CallKey:
    """A call: the function, its arguments with tuples opened, and its scalars."""

    callee: str
    arguments: tuple[ArgumentKey, ...]
    scalars: tuple[int, ...] = ()


@dataclass(frozen=True)
class ObjectKey:
    """A compiled kernel: the function, and the values that its symbols have; without any it takes all sizes."""

    callee: str
    sizes: tuple[tuple[str, int], ...] = ()
    device: str = HOST

    @classmethod
    def of(cls, callee: str, order: Sequence[Var], values: Mapping[Var, int]) -> ObjectKey:
        """The key of a function at values of some of its symbols. Symbols of one name are told apart by their place in
        `order`."""
        return cls(callee, tuple((f"{i} {v.name}", int(values[v])) for i, v in enumerate(order) if v in values))


def call_key(callee: str, arguments: Iterable[Any], scalars: Iterable[Any] = (), device: str = HOST) -> CallKey:
    """The key of a call on arrays, or on tuples of them, left to right."""
    inside = occurrences(tuple(arguments), lambda v: v if isinstance(v, tuple) else ())
    arrays = (ArgumentKey.of(np.asarray(v), device) for v in inside if not isinstance(v, tuple))
    return CallKey(callee, tuple(arrays), tuple(int(x) for x in scalars))

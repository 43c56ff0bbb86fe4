"""Element types of rule M5 (specs/semantics.md, "Scalars"), and the one function that says how many bytes they take."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from assay.semantics.errors import Invalid


@dataclass(frozen=True)
class DType:
    """An element type. `kind` is one of "bool", "int", "uint", "float"; `bits` is its width as a number
    (rule M5.1)."""

    name: str
    kind: str
    bits: int
    numpy: np.dtype[Any]

    @property
    def is_float(self) -> bool:
        """Whether it is of kind "float"."""
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """Whether it is of kind "int" or "uint"; bool is neither."""
        return self.kind in ("int", "uint")

    @property
    def itemsize(self) -> int:
        """Bytes of one element in memory; those of 4 and 2 bits take a byte each."""
        return self.numpy.itemsize

    @cached_property
    def unit_roundoff(self) -> float:
        """Half the distance from 1 to the next number: the largest relative error of one rounding to nearest."""
        return float(ml_dtypes.finfo(self.numpy).eps) / 2

    @cached_property
    def smallest_subnormal(self) -> float:
        """The least positive number of a float dtype."""
        return float(ml_dtypes.finfo(self.numpy).smallest_subnormal)

    @cached_property
    def smallest_normal(self) -> float:
        """The least positive normal number of a float dtype."""
        return float(ml_dtypes.finfo(self.numpy).smallest_normal)

    @cached_property
    def max(self) -> float | int:
        """The greatest finite number of the dtype; True for bool."""
        if self.kind == "bool":
            return True
        if self.is_float:
            return float(ml_dtypes.finfo(self.numpy).max)
        return int(ml_dtypes.iinfo(self.numpy).max)

    @cached_property
    def min(self) -> float | int:
        """The least finite number of the dtype; False for bool."""
        if self.kind == "bool":
            return False
        if self.is_float:
            return float(ml_dtypes.finfo(self.numpy).min)
        return int(ml_dtypes.iinfo(self.numpy).min)

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__


def _table() -> dict[str, DType]:
    rows = [("bool", "bool", 1, np.bool_)]
    rows += [(f"int{b}", "int", b, getattr(np, f"int{b}")) for b in (8, 16, 32, 64)]
    rows += [(f"uint{b}", "uint", b, getattr(np, f"uint{b}")) for b in (8, 16, 32, 64)]
    rows += [(f"{k}{b}", k, b, getattr(ml_dtypes, f"{k}{b}")) for b in (4, 2) for k in ("int", "uint")]
    rows += [(f"float{b}", "float", b, getattr(np, f"float{b}")) for b in (16, 32, 64)]
    rows += [("bfloat16", "float", 16, ml_dtypes.bfloat16)]
    rows += [("float4_e2m1fn", "float", 4, ml_dtypes.float4_e2m1fn)]
    float8 = ("e3m4", "e4m3", "e4m3b11fnuz", "e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu")
    rows += [(f"float8_{f}", "float", 8, getattr(ml_dtypes, f"float8_{f}")) for f in float8]
    return {name: DType(name, kind, bits, np.dtype(numpy)) for name, kind, bits, numpy in rows}


DTYPES: dict[str, DType] = _table()
_BY_NUMPY = {d.numpy: d for d in DTYPES.values()}

BOOL = DTYPES["bool"]
INT32 = DTYPES["int32"]
INT64 = DTYPES["int64"]
UINT8 = DTYPES["uint8"]
UINT64 = DTYPES["uint64"]
FLOAT16 = DTYPES["float16"]
FLOAT32 = DTYPES["float32"]
FLOAT64 = DTYPES["float64"]


def dtype(of: str | DType | np.dtype[Any] | type) -> DType:
    """The element type of that name or NumPy dtype; Invalid where there is none."""
    if isinstance(of, DType):
        return of
    if isinstance(of, np.dtype) and of in _BY_NUMPY:
        return _BY_NUMPY[of]
    if isinstance(of, str) and of in DTYPES:
        return DTYPES[of]
    try:
        found = np.dtype(of)
        if not found.isnative and found.newbyteorder("=") in _BY_NUMPY:
            message = (
                f"the bytes of {found} are in the other order; array.astype(array.dtype.newbyteorder('=')) has them in"
                " this machine's"
            )
            raise Invalid(message, label="dtype.C1")
        return _BY_NUMPY[found]
    except (KeyError, TypeError, ValueError, SyntaxError):  # NumPy reads some strings as records
        raise Invalid(f"unsupported dtype {of}; supported are {', '.join(DTYPES)}", label="dtype.C1") from None


def size_in_bytes(shape: Iterable[int], of: DType) -> int:
    """Bytes of a dense buffer of that shape: the only place where this is computed."""
    return prod(shape) * of.itemsize

"""Literals, static tables and the blob of large constants (specs/lower.md, "c").

A literal has exactly the value: floats stand in hexadecimal unless a short decimal is exact. What is too large to
stand in a source file goes into a binary blob, byte for byte as the constants lie in the table.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from assay.lower.c.narrow import NARROW, SMALL
from assay.semantics.dtypes import DTYPES, DType, dtype
from assay.semantics.errors import Invalid

Array = np.ndarray[Any, Any]

STORAGE = {
    "bool": "uint8_t",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
    "float32": "float",
    "float64": "double",
    **{f"{u}int{b}": f"{u}int{b}_t" for u in ("", "u") for b in (8, 16, 32, 64)},
    **dict.fromkeys((*NARROW, *SMALL), "uint8_t"),
}
"""The C type of one element in memory."""

CHUNK = 1 << 20


def integer_literal(value: int, of: DType) -> str:
    """An integer constant of the C type of `of` (of int where that is narrower than int)."""
    if of.name == "uint64":
        return f"UINT64_C({value})"
    if of.name == "uint32":
        return f"{value}u"
    if -(2**31) < value < 2**31:
        return str(value)
    if value == -(2**31):
        return "INT32_MIN"
    return "INT64_MIN" if value == -(2**63) else f"INT64_C({value})"


def float_literal(value: float, suffix: str) -> str:
    """A finite float constant, exact; `suffix` is "f" for float."""
    short = repr(value)
    if "e" in short or len(short) > 10 or Decimal(short) != Decimal(value):
        mantissa, exponent = value.hex().split("p")
        short = f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}p{exponent}"
    return short + suffix


def element_literals(array: Array, of: DType) -> Iterator[str]:
    """The elements in order as C constants of the storage type; non-finite floats as macros of <math.h>."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if of.name in ("float16", "bfloat16"):
        for bits in flat.view(np.uint16):
            yield f"0x{int(bits):04x}u"
    elif of.name in NARROW or of.name in SMALL:
        yield from (str(int(bits)) for bits in flat.view(np.uint8))
    elif of.is_float:
        suffix = "f" if of.name == "float32" else ""
        cast = "(double)" if of.name == "float64" else ""
        for value in flat:
            if np.isfinite(value):
                yield float_literal(float(value), suffix)
            else:
                yield cast + ("NAN" if value != value else "INFINITY" if value > 0 else "-INFINITY")
    elif of.kind == "bool":
        for flag in flat.view(np.uint8):
            yield "1" if flag else "0"
    else:
        for number in flat:
            yield integer_literal(int(number), of)


def needs_math(array: Array, of: DType) -> bool:
    """Whether the table of `array` uses INFINITY or NAN."""
    return of.name in ("float32", "float64") and not has_payload(array, of) and not bool(np.isfinite(array).all())


def has_payload(array: Array, of: DType) -> bool:
    """Whether an element is a NaN with other bits than the macro NAN has: only its bits can be written."""
    if of.name not in ("float32", "float64") or not np.isnan(array).any():
        return False
    flat = np.ascontiguousarray(array).reshape(-1)
    found = flat.view(f"u{of.itemsize}")[np.isnan(flat)]
    return bool((found != np.array(np.nan, of.numpy).view(f"u{of.itemsize}")).any())


def table_declaration(name: str, array: Array, of: DType) -> str:
    """The declaration of a table. Where only bits can be written it is a union of these and the numbers that they
    are."""
    size = max(array.size, 1)
    if not has_payload(array, of):
        return f"{STORAGE[of.name]} {name}[{size}]"
    return f"union {{ uint{8 * of.itemsize}_t bits[{size}]; {STORAGE[of.name]} numbers[{size}]; }} {name}"


def element_names(name: str, array: Array, of: DType) -> str:
    """How the elements of a table are named."""
    return f"{name}.numbers" if has_payload(array, of) else name


def static_table(name: str, array: Array, of: DType) -> Iterator[str]:
    """The definition of a read-only table, in pieces."""
    yield f"static const {table_declaration(name, array, of)} = {{\n"
    if array.size == 0:
        yield "    0\n"
    yield from element_rows(array, of)
    yield "};\n"


def element_rows(array: Array, of: DType) -> Iterator[str]:
    """The elements as lines of an initialiser."""
    if has_payload(array, of):
        yield "    {\n"
        yield from element_rows(np.ascontiguousarray(array).view(f"u{of.itemsize}"), DTYPES[f"uint{8 * of.itemsize}"])
        yield "    }\n"
        return
    row: list[str] = []
    width = 0
    for text in element_literals(array, of):
        row.append(text)
        width += len(text) + 2
        if width > 100:
            yield f"    {', '.join(row)},\n"
            row, width = [], 0
    if row:
        yield f"    {', '.join(row)}\n"


@dataclass(frozen=True, eq=False)
class Blob:
    """Constants at their offsets in one table, as a file for the generated code. Little-endian; gaps are zeros.

    The arrays are not copied: `chunks` walks them.
    """

    pieces: tuple[tuple[int, Array], ...]
    nbytes: int
    alignment: int

    def chunks(self) -> Iterator[bytes | memoryview]:
        """The bytes from first to last, in pieces of at most a mebibyte."""
        at = 0
        for offset, array in self.pieces:
            yield from _zeros(offset - at)
            data = np.ascontiguousarray(array)
            if sys.byteorder == "big" and data.dtype.itemsize > 1:
                data = data.byteswap()
            raw = data.reshape(-1).view(np.uint8).data if data.size else memoryview(b"")
            for start in range(0, len(raw), CHUNK):
                yield raw[start : start + CHUNK]
            at = offset + array.nbytes
        yield from _zeros(self.nbytes - at)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the bytes."""
        total = hashlib.sha256()
        for piece in self.chunks():
            total.update(piece)
        return total.hexdigest()

    def write(self, path: Path) -> None:
        """Write the file; it appears whole, so that one that is mapped may be written over."""
        new = path.with_name(f"{path.name}.new")
        with new.open("wb") as file:
            for piece in self.chunks():
                file.write(piece)
        os.replace(new, path)

    def tobytes(self) -> bytes:
        """All of it in memory."""
        return b"".join(self.chunks())


def _zeros(count: int) -> Iterator[bytes]:
    while count > 0:
        yield bytes(min(count, CHUNK))
        count -= CHUNK


def blob(constants: Sequence[tuple[str, int, Array]], alignment: int) -> Blob:
    """The blob of (name, offset, array) rows; Invalid where two of them share a byte."""
    pieces: list[tuple[int, Array]] = []
    end, last = 0, ""
    for name, offset, array in sorted(constants, key=lambda row: (row[1], row[1] + row[2].nbytes)):
        dtype(array.dtype)
        if offset < end:
            raise Invalid(
                f"constants {last!r} and {name!r} share the byte at offset {offset} of the table", label="c.C2"
            )
        pieces.append((offset, array))
        end, last = offset + array.nbytes, name
    return Blob(tuple(pieces), end, alignment)

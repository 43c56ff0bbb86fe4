"""Memory as the definition of the tensor IR sees it (rule M7; specs/interp.md, "Memory").

A buffer begins to exist, unwritten or with contents; elements are loaded and stored one at a time, every access
checked; then it ends. `assay.interp.machine` puts byte-addressed memory with owners behind the same methods.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from assay.interp.binding import Array
from assay.interp.reports import (
    absent,
    no_bool,
    outside,
    read_only,
    unwritten,
    unwritten_output,
)
from assay.semantics.dtypes import BOOL
from assay.semantics.tensor import Buffer


@dataclass
class BufferCell:
    """One life of a buffer: its elements, and which of them were written (None: all, and read-only)."""

    data: Array
    written: Array | None
    parts: dict[tuple[int, ...], set[int]] = field(default_factory=dict)
    """The bytes that were written of elements of which not all were."""


class Memory:
    """Each buffer in an array of its own, with a bit for each element that was written."""

    def __init__(self) -> None:
        self.cells: dict[Buffer, BufferCell] = {}

    def begin(self, buffer: Buffer, shape: tuple[int, ...], contents: Array | None = None) -> None:
        """`buffer` starts to exist: unwritten, or read-only with `contents` (rule M6.4)."""
        if contents is not None:
            self.cells[buffer] = BufferCell(contents, None)
        else:
            self.cells[buffer] = BufferCell(np.empty(shape, buffer.dtype.numpy), np.zeros(shape, bool))

    def end(self, buffer: Buffer) -> None:
        """`buffer` exists no more."""
        del self.cells[buffer]

    def cell(self, buffer: Buffer) -> BufferCell:
        """The life that a buffer is in now; traps (tensor.T1) where the buffer does not exist."""
        try:
            return self.cells[buffer]
        except KeyError:
            raise absent(buffer) from None

    def shape(self, buffer: Buffer) -> tuple[int, ...]:
        """The shape of a buffer that exists."""
        return tuple(self.cell(buffer).data.shape)

    def address(self, buffer: Buffer) -> int:
        """The byte of its memory at which a buffer that exists begins."""
        return 0

    def is_constant(self, buffer: Buffer) -> bool:
        """Whether a buffer that exists is read-only."""
        return self.cell(buffer).written is None

    def is_written(self, buffer: Buffer, index: Sequence[Any]) -> bool:
        """Whether the element at `index`, which is inside, was written."""
        written = self.cell(buffer).written
        return written is None or bool(written[tuple(index)])

    def is_byte_written(self, buffer: Buffer, index: Sequence[Any], byte: int) -> bool:
        """Whether a byte of the element at `index`, which is inside, was written."""
        return self.is_written(buffer, index) or byte in self.cell(buffer).parts.get(tuple(map(int, index)), ())

    def load_byte(self, buffer: Buffer, index: Sequence[Any], byte: int) -> int:
        """A byte of the element at `index`, the lowest first; traps as `load` does."""
        cell = self.cell(buffer)
        at = check_bounds(buffer, cell.data.shape, index)
        if not self.is_byte_written(buffer, at, byte):
            raise unwritten(buffer, at, byte)
        return to_bytes(cell.data[at])[byte]

    def store_byte(self, buffer: Buffer, index: Sequence[Any], byte: int, value: int) -> None:
        """A byte of the element at `index` becomes `value`; traps as `store` does."""
        cell = self.cell(buffer)
        at = check_bounds(buffer, cell.data.shape, index)
        if cell.written is None:
            raise read_only(buffer, at)
        cell.data[at] = with_byte(cell.data[at], byte, value, buffer, at)
        if not cell.written[at]:
            key = tuple(map(int, at))
            done = cell.parts.setdefault(key, set())
            done.add(byte)
            if len(done) == buffer.dtype.itemsize:
                cell.written[at] = True
                del cell.parts[key]

    def load(self, buffer: Buffer, index: Sequence[Any]) -> Any:
        """The element at `index`; traps out of bounds and where nothing was written."""
        cell = self.cell(buffer)
        at = check_bounds(buffer, cell.data.shape, index)
        if cell.written is not None and not cell.written[at]:
            raise unwritten(buffer, at)
        return cell.data[at]

    def store(self, buffer: Buffer, index: Sequence[Any], value: Any) -> None:
        """The element at `index` becomes `value`; traps out of bounds and where the buffer is read-only."""
        cell = self.cell(buffer)
        at = check_bounds(buffer, cell.data.shape, index)
        if cell.written is None:
            raise read_only(buffer, at)
        cell.data[at] = value
        cell.written[at] = True

    def result(self, buffer: Buffer) -> Array:
        """An output after the run; traps where an element was never written."""
        cell = self.cell(buffer)
        if cell.written is not None and not cell.written.all():
            raise unwritten_output(buffer, cell.written)
        return cell.data


def to_bytes(value: Any) -> bytes:
    """The bytes of a number, the lowest first."""
    bits = np.asarray(value)
    return int(bits.view(f"u{bits.dtype.itemsize}")).to_bytes(bits.dtype.itemsize, "little")


def from_bytes(given: bytes, buffer: Buffer, index: Sequence[Any]) -> Any:
    """The number that an element is by its bytes, the lowest first; traps where it is none: a bool is 0 or 1
    (rule M6.22)."""
    of = buffer.dtype
    if of is BOOL and given[0] > 1:
        raise no_bool(buffer, index, given[0])
    return np.asarray(int.from_bytes(given, "little"), f"u{len(given)}").view(of.numpy)[()]


def with_byte(number: Any, byte: int, value: int, buffer: Buffer, index: Sequence[Any]) -> Any:
    """An element with one of its bytes replaced."""
    given = to_bytes(number)
    return from_bytes(given[:byte] + bytes([value]) + given[byte + 1 :], buffer, index)


def check_bounds(buffer: Buffer, shape: Sequence[int], index: Sequence[Any]) -> tuple[int, ...]:
    """`index` as numbers; traps unless each lies within its own dimension (rule M6.5)."""
    for axis, (i, n) in enumerate(zip(index, shape, strict=True)):
        if not 0 <= i < n:
            raise outside(buffer, index, axis, n)
    return tuple(int(i) for i in index)  # NumPy takes no 4-bit integer as an index

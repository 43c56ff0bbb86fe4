"""Memory as the definition of the tensor IR sees it (rule M7; specs/interp.md, "Memory").

A buffer begins to exist, unwritten or with contents; elements are loaded and stored one at a time, every access
checked; then it ends. `assay.interp.machine` puts byte-addressed memory with owners behind the same methods.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.interp.binding import Array
from assay.semantics.errors import Trap
from assay.semantics.tensor import Buffer


@dataclass
class Cell:
    """One life of a buffer: its elements, and which of them were written (None: all, and read-only)."""

    data: Array
    written: Array | None


class Memory:
    """Each buffer in an array of its own, with a bit for each element that was written."""

    def __init__(self) -> None:
        self.cells: dict[Buffer, Cell] = {}

    def begin(self, buffer: Buffer, shape: tuple[int, ...], contents: Array | None = None) -> None:
        """`buffer` starts to exist: unwritten, or read-only with `contents`."""
        if contents is not None:
            self.cells[buffer] = Cell(contents, None)
        else:
            self.cells[buffer] = Cell(np.empty(shape, buffer.dtype.numpy), np.zeros(shape, bool))

    def end(self, buffer: Buffer) -> None:
        """`buffer` exists no more."""
        del self.cells[buffer]

    def cell(self, buffer: Buffer) -> Cell:
        try:
            return self.cells[buffer]
        except KeyError:
            raise Trap(
                "use outside lifetime", f"buffer {buffer.name} does not exist here", label="tensor.T1"
            ) from None

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

    def load(self, buffer: Buffer, index: Sequence[Any]) -> Any:
        """The element at `index`; traps out of bounds and where nothing was written."""
        cell = self.cell(buffer)
        at = check_bounds(buffer, cell.data.shape, index)
        if cell.written is not None and not cell.written[at]:
            raise Trap(
                "unwritten read", f"{element(buffer, at)} is read before it is written", label="tensor.T3"
            )
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


def check_bounds(buffer: Buffer, shape: Sequence[int], index: Sequence[Any]) -> tuple[int, ...]:
    """`index` as numbers; traps unless each lies within its own dimension."""
    for axis, (i, n) in enumerate(zip(index, shape, strict=True)):
        if not 0 <= i < n:
            raise Trap(
                "out of bounds",
                f"{element(buffer, index)}: index {i} is outside [0, {n}) in dimension {axis}",
                label="tensor.T2",
            )
    return tuple(index)


def element(buffer: Buffer, index: Sequence[Any]) -> str:
    """An element as messages name it."""
    return f"{buffer.name}[{', '.join(str(int(i)) for i in index)}]"


def read_only(buffer: Buffer, index: Sequence[Any]) -> Trap:
    return Trap(
        "store to constant",
        f"store to {element(buffer, index)}: {buffer.name} is read-only (an input or a constant)",
        label="tensor.T4",
    )


def unwritten_output(buffer: Buffer, written: Array) -> Trap:
    """The trap for an output of which not every element was written."""
    first = np.unravel_index(int(np.argmin(written)), written.shape)
    missing = int(written.size - np.count_nonzero(written))
    return Trap(
        "unwritten output",
        f"{missing} of {written.size} elements of output {buffer.name} were never written;"
        f" the first is {element(buffer, first)}",
        label="tensor.T5",
    )

"""Views while they exist (rules M6.12, E12; specs/interp.md, "Tensor")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np

from assay.interp.memory import check_bounds
from assay.interp.reports import misaligned, other_scope, outside_source
from assay.semantics.dtypes import DType
from assay.semantics.tensor import Buffer, View
from assay.semantics.tensor.places import declared_number

Element: TypeAlias = tuple[Buffer, tuple[Any, ...]]
"""A buffer, and numbers."""


@dataclass(frozen=True)
class Window:
    """A view: its element `i` is element `offset + sum(i * strides)` of its source, in row-major order.

    Where the two have dtypes of different widths, elements of the view are counted.
    """

    view: View
    shape: tuple[int, ...]
    source_shape: tuple[int, ...]
    offset: int
    strides: tuple[int, ...]

    @property
    def buffer(self) -> Buffer:
        """The buffer by whose name the view is accessed."""
        return self.view.buffer

    def element(self, index: tuple[Any, ...]) -> tuple[Buffer, tuple[Any, ...]]:
        """The element of the source that an element is; traps where either has no such element."""
        source, at, _ = self.byte(index, 0)
        return source, at

    def byte(self, index: tuple[Any, ...], byte: int) -> tuple[Buffer, tuple[Any, ...], int]:
        """The element of the source, and which byte of it, that a byte of an element is; traps as `element` does."""
        at = check_bounds(self.buffer, self.shape, index)
        own, other = self.buffer.dtype.itemsize, self.view.source.dtype.itemsize
        place = self.offset + sum(int(i) * s for i, s in zip(at, self.strides, strict=True))
        flat, rest = divmod(place * own + byte, other)
        size = prod(self.source_shape)
        if not 0 <= flat < size:
            raise outside_source(self.view, at, flat, self.source_shape)
        return self.view.source, tuple(np.unravel_index(flat, self.source_shape)) if self.source_shape else (), rest


def names_of(views: Mapping[Buffer, Window], buffer: Buffer, index: tuple[Any, ...]) -> list[Element]:
    """An element under each of its names: as it is written, then in the source of each view, the memory's last."""
    names = [(buffer, index)]
    while buffer in views:
        buffer, index = views[buffer].element(index)
        names.append((buffer, index))
    return names


def names_of_byte(
    views: Mapping[Buffer, Window], buffer: Buffer, index: tuple[Any, ...], byte: int
) -> tuple[list[Element], int]:
    """The elements that a byte of an element lies in, and which byte of the memory's it is."""
    names = [(buffer, index)]
    while buffer in views:
        buffer, index, byte = views[buffer].byte(index, byte)
        names.append((buffer, index))
    return names, byte


def check_alignment(buffer: Buffer, address: int, offset: int | None = None) -> None:
    """Traps where `buffer`, at byte `address` and at element `offset` of its memory, is not aligned as it declares
    (rule M6.14)."""
    factor = declared_number(buffer, "offset_factor")
    if offset is not None and factor and offset % factor:
        raise misaligned(buffer, "element", offset, "offset_factor", factor)
    align = declared_number(buffer, "align")
    if align and address % align:
        raise misaligned(buffer, "byte", address, "align", align)


def as_bits(value: Any, of: DType) -> Any:
    """A number's bits as a number of another dtype; itself where it has that dtype."""
    return value if value.dtype == of.numpy else np.asarray(value).view(of.numpy)[()]


def check_scope(view: View, windows: Mapping[Buffer, Window]) -> None:
    """Traps where a view says that its memory is of another kind than that of its source; what is open says nothing."""
    source = view.source
    while not source.scope and source in windows:
        source = windows[source].view.source
    if view.buffer.scope and source.scope not in ("", view.buffer.scope):
        raise other_scope(view, source.scope)

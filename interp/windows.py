"""Views while they exist (rules M6.12, E12; specs/interp.md, "Tensor")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from assay.interp.memory import check_bounds, element
from assay.semantics.dtypes import DType
from assay.semantics.errors import Trap
from assay.semantics.scalar import Var
from assay.semantics.tensor import Buffer, View
from assay.semantics.tensor.places import declared_number


@dataclass(frozen=True)
class Window:
    """A view: its element `i` is element `offset + sum(i * strides)` of its source, in row-major order."""

    view: View
    shape: tuple[int, ...]
    source_shape: tuple[int, ...]
    offset: int
    strides: tuple[int, ...]

    @property
    def buffer(self) -> Buffer:
        return self.view.buffer

    def element(self, index: tuple[Any, ...]) -> tuple[Buffer, tuple[Any, ...]]:
        """The element of the source that an element is; traps where either has no such element."""
        at = check_bounds(self.buffer, self.shape, index)
        flat = self.offset + sum(int(i) * s for i, s in zip(at, self.strides, strict=True))
        size = prod(self.source_shape)
        if not 0 <= flat < size:
            raise Trap(
                "out of bounds",
                f"{element(self.buffer, at)} is element {flat} of {self.view.source.name}, which has {size}",
                label="tensor.T2",
            )
        return self.view.source, tuple(np.unravel_index(flat, self.source_shape)) if self.source_shape else ()


def check_alignment(buffer: Buffer, address: int, offset: int | None = None) -> None:
    """Traps where `buffer`, at byte `address` and at element `offset` of its memory, is not aligned as it declares."""
    factor = declared_number(buffer, "offset_factor")
    if offset is not None and factor and offset % factor:
        raise Trap(
            "misaligned",
            f"{buffer.name} begins at element {offset} of its memory; offset_factor={factor} asks for a multiple of {factor}",
            label="tensor.T11",
        )
    align = declared_number(buffer, "align")
    if align and address % align:
        raise Trap(
            "misaligned",
            f"{buffer.name} begins at byte {address} of its memory; align={align} asks for a multiple of {align}",
            label="tensor.T11",
        )


def as_bits(value: Any, of: DType) -> Any:
    """A number's bits as a number of another dtype; itself where it has that dtype."""
    return value if value.dtype == of.numpy else np.asarray(value).view(of.numpy)[()]


def check_scope(view: View) -> None:
    """Traps where a view says that its memory is of another kind than that of its source."""
    if view.buffer.scope != view.source.scope:
        raise Trap(
            "wrong scope",
            f"{view.buffer.name} is declared in scope {view.buffer.scope}; the memory of {view.source.name} is in scope"
            f" {view.source.scope}",
            label="tensor.T12",
        )


def wrong_thread(names: Sequence[tuple[Buffer, tuple[Any, ...]]], var: Var) -> Trap:
    root = names[-1][0]
    return Trap(
        "wrong scope",
        f"an iteration of the parallel loop over {var.name} stores to {element(*names[0])}; scope {root.scope} is each"
        " thread's own, so the buffer must begin inside the loop, or be in scope global",
        label="tensor.T12",
    )

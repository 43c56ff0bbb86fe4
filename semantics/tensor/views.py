"""Views and regions: parts of buffers (rules M6.11, M6.12; specs/semantics.md, "Tensor IR")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assay.semantics.scalar import Expr, show
from assay.semantics.scalar.expression import Buffer


@dataclass(frozen=True, eq=False)
class View:
    """`buffer` is a window on the memory of `source`, which may be a view itself.

    Its element i is the element `offset` + sum of i times `strides` of `source`, counted in row-major order. `region`
    is the part of the source that it was written as a match of. A buffer of another dtype sees the bytes of the source,
    and its own elements are counted. A `constant` one is not written through.
    """

    buffer: Buffer
    source: Buffer
    offset: Expr
    strides: tuple[Expr, ...]
    region: Region | None = None
    constant: bool = False

    @property
    def expressions(self) -> Sequence[Expr]:
        """The offset, then the strides."""
        return (self.offset, *self.strides)

    def line(self) -> str:
        """The line by which messages show it."""
        strides = ", ".join(map(show, self.strides))
        return f"{self.buffer!r} views {self.source.name} from {show(self.offset)} in steps of ({strides})"


@dataclass(frozen=True, eq=False)
class Region:
    """A box of a buffer: in each dimension from `starts` up to but not including `stops`; None stops after one."""

    buffer: Buffer
    starts: tuple[Expr, ...]
    stops: tuple[Expr | None, ...]

    @property
    def expressions(self) -> Sequence[Expr]:
        """The starts, then the stops that are said."""
        return (*self.starts, *(e for e in self.stops if e is not None))

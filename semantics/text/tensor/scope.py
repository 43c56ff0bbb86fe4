"""Names while a tensor function is read, and the block that is being read (specs/semantics.md, "Text")."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from assay.semantics.dtypes import DType
from assay.semantics.scalar import Expr, Var
from assay.semantics.tensor import Block, Buffer, IterVar, Region, Stmt, View

Meaning: TypeAlias = "Expr | Buffer"


@dataclass
class BlockHead:
    """What the lines at the start of a block have said so far."""

    name: str
    iterators: list[IterVar] = field(default_factory=list)
    predicate: Expr | None = None
    reads: tuple[Region, ...] | None = None
    writes: tuple[Region, ...] | None = None
    allocated: list[Buffer] = field(default_factory=list)
    views: list[View] = field(default_factory=list)
    annotations: Mapping[str, Any] = field(default_factory=dict)
    init: Stmt | None = None

    def block(self, body: Stmt) -> Block:
        """The block of all that was said, around `body`."""
        return Block(
            self.name,
            tuple(self.iterators),
            body,
            self.init,
            self.predicate,
            self.reads,
            self.writes,
            tuple(self.allocated),
            tuple(self.views),
            self.annotations,
        )


@dataclass
class FunctionHead:
    """What is known of the function that is being read."""

    params: list[Buffer] = field(default_factory=list)
    scalars: list[Var] = field(default_factory=list)
    handles: dict[str, int] = field(default_factory=dict)
    """Parameters without a type yet, and how many buffers stood before each of them."""
    attrs: dict[str, Any] = field(default_factory=dict)
    implied: dict[Var, Expr] = field(default_factory=dict)
    """Symbols that the calling convention decides: offsets are 0, strides those of dense rows."""
    windows: list[View] = field(default_factory=list)
    """Parameters that lie spread out in memory that is handed over flat."""
    declared: dict[str, DType] = field(default_factory=dict)
    """Symbols that some line of the function declares, `n = T.int32()`; earlier lines may name them in strings."""
    assigned: Counter[str] = field(default_factory=Counter)
    """How many lines of the function assign to a name."""
    is_new: bool = False
    """Whether the text is surely of a version that has `s_tir=`."""

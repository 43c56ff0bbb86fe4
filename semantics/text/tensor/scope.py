"""Names while a tensor function is read, and the block that is being read (specs/semantics.md, "Text")."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from assay.semantics.dtypes import DType
from assay.semantics.scalar import Expr, Var
from assay.semantics.tensor import Block, Buffer, IterVar, Region, Stmt, View

Meaning: TypeAlias = "Expr | Buffer"


class Names(Mapping[str, Meaning]):
    """What names stand for; a declaration holds until the scope that it stands in is left."""

    def __init__(self, outer: Mapping[str, Meaning]) -> None:
        self.table: dict[str, Meaning] = dict(outer)
        self.undo: list[tuple[str, Meaning | None]] = []

    def __getitem__(self, name: str) -> Meaning:
        return self.table[name]

    def __contains__(self, name: object) -> bool:
        return name in self.table

    def __iter__(self) -> Iterator[str]:
        return iter(self.table)

    def __len__(self) -> int:
        return len(self.table)

    def declare(self, name: str, meaning: Meaning) -> None:
        """Lets a name stand for `meaning` until the scope is left."""
        self.undo.append((name, self.table.get(name)))
        self.table[name] = meaning

    def leave(self, mark: int) -> None:
        """Back to what held when `undo` had `mark` entries."""
        while len(self.undo) > mark:
            name, outer = self.undo.pop()
            if outer is None:
                del self.table[name]
            else:
                self.table[name] = outer


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

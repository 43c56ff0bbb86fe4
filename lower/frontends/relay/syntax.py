"""The tree of a Relay text, its names resolved (specs/lower.md, "Relay").

Nodes are compared by identity: a graph binding `%0 = ...` is one node however often it is used (rule M2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.scalar import Var as Symbol
from assay.semantics.types import DataDef, Type, TypeVar


@dataclass(eq=False)
class RelayNode:
    """Base of the tree. `start` and `end` are offsets into the text; `parts` names the fields that hold nodes."""

    start: int
    end: int
    parts: ClassVar[tuple[str, ...]] = ()

    @property
    def children(self) -> Sequence[RelayNode]:
        """The nodes directly below, in the order of evaluation."""
        found: list[RelayNode] = []
        for name in self.parts:
            part = getattr(self, name)
            found += part if isinstance(part, list) else [part]
        return found


@dataclass(eq=False)
class Binder:
    """A local name: a parameter, a let's, a pattern's. `type` is what the text says of it."""

    name: str
    type: Type | None
    start: int
    end: int
    device: VirtualDevice = ANYWHERE


@dataclass(eq=False)
class Literal(RelayNode):
    """A number or tensor that stands in the text or the metadata."""

    data: np.ndarray[Any, Any]


@dataclass(eq=False)
class RelayVar(RelayNode):
    """A use of a variable, resolved to its binder."""

    binder: Binder


@dataclass(eq=False)
class Shared(RelayNode):
    """A use of a graph binding."""

    graph: Graph


@dataclass(eq=False)
class Global(RelayNode):
    """A use of a function of the module, by name."""

    name: str


@dataclass(eq=False)
class RelayOp(RelayNode):
    """An operator by name, as the callee of a call."""

    name: str


@dataclass(eq=False)
class Maker(RelayNode):
    """A constructor of a data type."""

    data: str
    name: str


@dataclass(eq=False)
class Apply(RelayNode):
    """A call; `attrs` have the values of the text."""

    callee: RelayNode
    args: list[RelayNode]
    attrs: Mapping[str, Any]
    parts = ("callee", "args")


@dataclass(eq=False)
class Let(RelayNode):
    """`let %x = value; body`."""

    binder: Binder
    value: RelayNode
    body: RelayNode
    parts = ("value", "body")


@dataclass(eq=False)
class Graph(RelayNode):
    """`%k = value; body`. `uses` counts the references to it."""

    value: RelayNode
    body: RelayNode | None = None
    uses: int = 0

    @property
    def children(self) -> Sequence[RelayNode]:
        """The value, if it is referred to, and the body."""
        assert self.body is not None
        return (self.value, self.body) if self.uses else (self.body,)


@dataclass(eq=False)
class Branch(RelayNode):
    """`if (condition) { then } else { otherwise }`."""

    condition: RelayNode
    then: RelayNode
    otherwise: RelayNode
    parts = ("condition", "then", "otherwise")


@dataclass(eq=False)
class RelayTuple(RelayNode):
    """`(a, b, ...)`."""

    fields: list[RelayNode]
    parts = ("fields",)


@dataclass(eq=False)
class Item(RelayNode):
    """`value.index`, a field of a tuple."""

    value: RelayNode
    index: int
    parts = ("value",)


@dataclass(eq=False)
class Reference(RelayNode):
    """`ref`, `ref_read` or `ref_write` of its operands."""

    kind: str
    args: list[RelayNode]
    parts = ("args",)


@dataclass(eq=False)
class Fn(RelayNode):
    """A function. What it does not say of its types is None."""

    type_params: tuple[TypeVar, ...]
    params: list[Binder]
    result: Type | None
    body: RelayNode
    attrs: Mapping[str, Any]
    parts = ("body",)


@dataclass(eq=False)
class RelayPattern:
    """`kind` is "any", "name", "tuple" or "made"."""

    kind: str
    start: int
    end: int
    binder: Binder | None = None
    data: str = ""
    constructor: str = ""
    children: list[RelayPattern] = field(default_factory=list)
    """The patterns of the fields."""


@dataclass(eq=False)
class RelayMatch(RelayNode):
    """`match (value) { pattern => body, ... }`; a `partial` one may leave cases out."""

    value: RelayNode
    clauses: list[tuple[RelayPattern, RelayNode]]
    partial: bool

    @property
    def children(self) -> Sequence[RelayNode]:
        """The value, then the bodies of the clauses."""
        return (self.value, *(body for _, body in self.clauses))


@dataclass
class RelayProgram:
    """What a text holds: data types, functions by name, and of each the names of the module that it uses."""

    data: dict[str, DataDef] = field(default_factory=dict)
    functions: dict[str, Fn] = field(default_factory=dict)
    used: dict[str, set[str]] = field(default_factory=dict)
    references: bool = False
    """Whether the text creates, reads or writes references: then calls of functions may act."""
    prelude: bool = False
    """Whether the text may count on the prelude: it has no List, Option or Tree of its own."""
    uses_prelude: bool = False
    """Whether it uses a data type of the prelude."""
    unknown: set[Symbol] = field(default_factory=set)
    """The sizes that stand as ? in the text."""

"""What is known while a graph function is read out of live TVM objects (specs/lower.md, "tvm")."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from assay.lower.frontends.tvm.memory import Cell, Held, Owners, Value, cells_of, current_value
from assay.lower.frontends.tvm.objects import Object, handle
from assay.lower.frontends.tvm.signatures import Signatures
from assay.lower.frontends.tvm.types import Types
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.errors import Invalid, Span
from assay.semantics.graph import Constant, Dataflow, Expr, Var
from assay.semantics.scalar import Var as Symbol
from assay.semantics.tasks import Task

Steps: TypeAlias = Task[Any]
"""A part of the reading: it yields the parts that it needs, and returns a value."""


AS_DECLARED = ", as TVM declares it"
"""What follows the name of a variable in the place of a check that its value has the type that TVM says."""


@dataclass
class FunctionState:
    """What is known while one graph function is read."""

    signatures: Signatures
    name: str
    env: dict[int, Value] = field(default_factory=dict)
    constants: dict[int, Expr] = field(default_factory=dict)
    lets: list[tuple[Var, Expr, Dataflow | None]] = field(default_factory=list)
    owners: Owners = field(default_factory=Owners)
    killed: set[int] = field(default_factory=set)
    """Variables whose value was dropped. The memory behind one may still have another name."""
    seen: set[Cell] = field(default_factory=set)
    """Tensors that were read."""
    fixed: set[Expr] = field(default_factory=set)
    """Variables that are constants of the module."""
    depth: int = 0
    mark: Dataflow | None = None
    at: str = ""

    def __post_init__(self) -> None:
        self.where = f"function {self.name}"
        self.types = Types(self.signatures.symbols, self.where)
        self.force_pure = False
        self.limits: dict[Symbol, int] = {}
        self.changes = False
        """Whether operands are changed in place, so that it matters which values share memory."""

    def place(self) -> str:
        """Where the reading is, for messages."""
        return f"{self.where}, {self.at}" if self.at else self.where

    def span(self) -> Span:
        """The place that is being read: function and binding."""
        return Span(self.name, self.at)

    def invalid(self, message: str, label: str) -> Invalid:
        """What to raise for what is wrong here."""
        return Invalid(message, where=self.place(), label=label)

    def use(self, value: Value, *, view: bool = False) -> Expr:
        """The value now; for a `view` of it, whose own uses are checked, what it was."""
        self.seen.update(c for c, _ in cells_of(value))
        return current_value(value, self.place(), view=view)

    def lookup(self, o: Object) -> Value:
        """The value of a variable."""
        if handle(o) in self.killed:
            raise self.invalid(f"{o.name} is used after it was killed", "tvm.P2")
        found = self.env.get(handle(o))
        if found is None:
            raise self.invalid(f"the variable {o.name} is not bound", "tvm.C10")
        return found

    def is_constant(self, value: Value) -> bool:
        """Whether it is a constant of the module, by whatever name."""
        return isinstance(value, Held) and (isinstance(value.expr, Constant) or value.expr in self.fixed)

    def bind(self, name: str, value: Expr, device: VirtualDevice = ANYWHERE) -> Var:
        """A new variable for a value, bound here, on a device or where the value is."""
        var = Var(value.type, name, device=value.device if device == ANYWHERE else device)
        self.lets.append((var, value, self.mark))
        return var

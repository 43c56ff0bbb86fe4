"""What the registers of bytecode hold while it is followed (specs/verify.md, "vm")."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from assay.semantics import bytecode as vm
from assay.semantics.devices import VirtualDevice
from assay.semantics.scalar import Dim, Var as Symbol
from assay.semantics.types import TensorType
from assay.verify.vm.terms import Trail


@dataclass(frozen=True)
class Storage:
    """A storage, by the instruction that allocates it."""

    made: int
    device: VirtualDevice
    nbytes: Dim
    alignment: int


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor that was laid into a storage, by the instruction."""

    made: int
    type: TensorType
    device: VirtualDevice


Held: TypeAlias = "int | Storage | Tensor"
"""What a register holds: the number of a value, or memory."""


@dataclass
class State:
    """What the registers hold, and what the sizes are, at a place; what the tensors are filled with."""

    holds: dict[vm.Register, Held]
    sizes: dict[Symbol, Dim]
    way: Trail
    filled: dict[Tensor, int] = field(default_factory=dict)
    made: dict[int, str] = field(default_factory=dict)
    """The constructors that have made data values, as far as that was asked on the way here."""

    def copy(self) -> State:
        """The same, for one of several ways that go on from here."""
        return State(dict(self.holds), dict(self.sizes), self.way.copy(), dict(self.filled), dict(self.made))


@dataclass
class Outcome:
    """A way that has come to its end: the number of what the function gives."""

    result: int
    way: Trail

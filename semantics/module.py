"""Modules: what every pass takes and gives; and the planned program, the last form before C (specs/semantics.md).

A module maps names to graph functions, tensor functions, data types and planned programs, and has a table of constants
that they share. Modules are values: a pass returns a new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from assay.semantics.errors import Invalid, Span
from assay.semantics.graph import Function
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import ANYWHERE, DataDef, TensorType, VirtualDevice

GROUP = "group"
"""The attribute of a tensor function that is several calls in one: the name of the graph function that it computes."""


@dataclass(frozen=True)
class Slot:
    """A logical buffer of a planned program: bytes with one name, one meaning and one life.

    It is live from step `start` up to but not including step `stop`. `place` says whose memory it is: the caller's
    ("input", "output"), the read-only table ("constant") or the pool ("workspace"); `offset` is its place in the table
    or the pool, None before that is decided. `producer` names what fills it, for messages.
    """

    name: str
    type: TensorType
    place: Literal["input", "output", "constant", "workspace"]
    start: int
    stop: int
    alignment: int
    offset: int | None = None
    producer: str = ""

    @property
    def nbytes(self) -> int:
        return self.type.nbytes


@dataclass(frozen=True)
class Step:
    """A call of a tensor function on slots, in the order of its parameters; `scratch` backs its allocations.

    `device` is where the call runs, as far as somebody has said (rule M8).
    """

    kernel: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    scratch: tuple[str, ...] = ()
    span: Span | None = None
    device: VirtualDevice = ANYWHERE


@dataclass(frozen=True)
class Program:
    """Steps over slots: what runs, in which order, in which memory. Interpreted by `assay.interp.machine`."""

    slots: Mapping[str, Slot]
    steps: tuple[Step, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    workspace_bytes: int | None = None
    alignment: int = 64

    def placed(self, place: str) -> list[Slot]:
        """The slots of one place, in the order of the table."""
        return [s for s in self.slots.values() if s.place == place]


Definition: TypeAlias = Function | PrimFunc | Program | DataDef


@dataclass(frozen=True)
class Module:
    """Definitions by name, and the constants they refer to by name. `main` is the entry."""

    definitions: Mapping[str, Definition]
    constants: Mapping[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    offsets: Mapping[str, int] = field(default_factory=dict)
    """Where each constant lies in the read-only table, in bytes, once that is decided."""

    @property
    def main(self) -> Function:
        """The entry as a graph function."""
        entry = self.definitions.get("main")
        if not isinstance(entry, Function):
            raise Invalid("the module has no graph function main", label="module.C1")
        return entry

    @property
    def program(self) -> Program:
        """The entry as a planned program."""
        entry = self.definitions.get("main")
        if not isinstance(entry, Program):
            raise Invalid("the module has no planned program main", label="module.C2")
        return entry

    @property
    def kernels(self) -> dict[str, PrimFunc]:
        return {n: d for n, d in self.definitions.items() if isinstance(d, PrimFunc)}

    def data(self, name: str) -> DataDef:
        found = self.definitions.get(name)
        if not isinstance(found, DataDef):
            raise Invalid(f"the module has no data type {name}", label="module.C4")
        return found

    def kernel(self, name: str) -> PrimFunc:
        found = self.definitions.get(name)
        if not isinstance(found, PrimFunc):
            raise Invalid(f"the module has no tensor function {name}", label="module.C3")
        return found

    def group(self, kernel: PrimFunc) -> Function | None:
        """The function whose calls a fused tensor function does, by its attribute `group`; None if it says none."""
        if GROUP not in kernel.attrs:
            return None
        found = self.definitions.get(kernel.attrs[GROUP])
        if not isinstance(found, Function):
            raise Invalid(f"the module has no function {kernel.attrs[GROUP]}, the group of {kernel.name}", label="module.C6")
        return found

    def with_(self, **definitions: Definition) -> Module:
        """This module with definitions added or replaced."""
        return replace(self, definitions={**self.definitions, **definitions})
